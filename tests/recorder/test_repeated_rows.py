"""Rows that occur many times in a batch are counted, and a buffer whose entries are one object is found."""

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.recorder.memory.aliased_buffers import aliases
from firstfault.recorder.tensors.repeated_rows import repeated_rows
from firstfault.schemas.files.layout import parts
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

WIDTH = 6


def table(run: Path, name: str) -> list[dict[str, Any]]:
    return [row for *_, part in parts(run, name) for row in pq.read_table(part).to_pylist()]


def trained(folder: Path, batch: Callable[[int], torch.Tensor], steps: int = 16) -> Path:
    torch.manual_seed(0)
    model = nn.Linear(WIDTH, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with Recorder(folder / "run", model=model):
        for step in range(steps):
            optimizer.zero_grad()
            model(batch(step)).square().mean().backward()
            optimizer.step()
    return folder / "run"


def test_different_rows_of_each_batch_are_counted(tmp_path: Path) -> None:
    rows = torch.randn(5, WIDTH)
    picked = torch.tensor([0] * 12 + [1] * 5 + [2] * 7)
    run = trained(tmp_path, lambda step: rows[picked] + step if step else torch.randn(24, WIDTH), steps=2)
    inputs = [row for row in table(run, "batches") if row["role"] == "input"]
    facts = [(row["distinct_rows"], row["most_repeated"], row["distinct_values"]) for row in inputs]
    assert facts == [(24, 1, None), (3, 12, 3 * WIDTH)]


def test_rows_of_one_hash_that_differ_are_not_taken_for_equal() -> None:
    rows = torch.randn(32, WIDTH)
    assert repeated_rows(rows, [1] * 32) == {}
    assert repeated_rows(rows[:1].expand(32, WIDTH), [1] * 32)["distinct_rows"] == 1


@pytest.mark.parametrize("rows", [torch.ones(32, WIDTH, dtype=torch.long), torch.ones(32, 3)])
def test_whole_numbers_and_narrow_rows_are_left_alone(rows: torch.Tensor) -> None:
    assert repeated_rows(rows, [1] * 32) == {}


class Agent:
    """Stores what it sees: in one object, or in a new one each time."""

    def __init__(self, style: str) -> None:
        self.style = style
        self.now = np.zeros(WIDTH, np.float32)
        self.episode: list[torch.Tensor] = []
        self.replay: Any = deque(maxlen=1000) if style.startswith("full") else []
        if style.startswith("full"):
            self.replay.extend((self.now, 0.0) for _ in range(1000))
        self.generator = np.random.default_rng(0)

    def batch(self, _: int) -> torch.Tensor:
        if self.style in {"episodes", "new episodes"}:
            if self.style == "episodes":
                self.episode.clear()
            else:
                self.episode = []
            self.episode += [torch.randn(WIDTH) for _ in range(4)]
            self.replay.append(self.episode)
            return torch.stack([row for k in self._picked(16) for row in self.replay[k]])
        self.now[:] = self.generator.normal(size=WIDTH)
        if self.style == "one constant":
            self.now[:] = 1.0
        self.replay.append((self.now.copy() if self.style == "copies" else self.now, 1.0))
        return torch.from_numpy(np.stack([self.replay[k][0] for k in self._picked(64)]))

    def _picked(self, count: int) -> Any:
        return self.generator.integers(len(self.replay), size=count)


@pytest.mark.parametrize(
    ("style", "told"),
    [
        ("episodes", ("list", "")),
        ("new episodes", None),
        ("arrays", ("ndarray", "[0]")),
        ("full queue", ("ndarray", "[0]")),
        ("copies", None),
        ("one constant", None),
    ],
)
def test_a_buffer_whose_entries_are_one_object_is_found(
    style: str, told: tuple[str, str] | None, tmp_path: Path
) -> None:
    agent = Agent(style)
    events = table(trained(tmp_path, agent.batch), "events")
    found = [json.loads(row["detail"]) for row in events if row["event"] == "aliased-buffer"]
    assert [(f["kind"], f["place"], f["name"]) for f in found] == ([(*told, "Agent.replay")] if told else [])


def test_no_buffer_is_looked_for_while_rows_differ(tmp_path: Path) -> None:
    kept: list[torch.Tensor] = []
    row = torch.zeros(WIDTH)

    def batch(step: int) -> torch.Tensor:
        kept.append(row.fill_(step))
        return torch.randn(64, WIDTH)

    assert not [e for e in table(trained(tmp_path, batch), "events") if e["event"] == "aliased-buffer"]


def test_entries_are_compared_by_their_memory_at_the_same_place() -> None:
    memory, spare = np.zeros(WIDTH), [None] * 40
    views = [{"state": torch.from_numpy(memory), "reward": 1.0} for _ in range(9)]
    repeated = [memory.copy(), memory] * 6
    set_in_part = [*views, *spare]
    found = {id(a.container): (a.place, a.entries) for a in aliases(WIDTH)}
    assert found.get(id(views)) == ("['state']", 9)
    assert found.get(id(set_in_part)) == ("['state']", 9)
    assert id(repeated) not in found
