"""What becomes longer in evaluations and keeps its length while the model trains."""

import json
from collections import deque
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from firstfault.recorder import Recorder
from firstfault.schemas.files.layout import parts
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

WIDE = 1100
"""Classes: what 4 evaluation batches of 64 put out takes 1.1 MB."""


class Loop:
    """Nine epochs of six steps, each with an evaluation, which keeps something."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, WIDE))
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.01)
        self.kept: list[Any] = []
        self.recent: deque[Tensor] = deque(maxlen=1000)
        self.joined = torch.zeros(0, WIDE)
        self.total: Any = 0.0

    def train(self) -> None:
        self.net.train()
        for _ in range(6):
            self.optimizer.zero_grad()
            out = self.net(torch.randn(16, 12))
            out.square().mean().backward()
            self.optimizer.step()
            if self.kind == "in training too":
                self.kept.append(out.detach())

    def evaluate(self) -> None:
        self.net.eval()
        if self.kind == "cleared":
            self.kept.clear()
        made_anew: list[Tensor] = []
        with torch.set_grad_enabled(self.kind in {"graphs", "sum"}):
            for _ in range(4):
                out = self.net(torch.randn(64, 12))
                made_anew.append(out)
                self.keep(out)
        if self.kind == "results":
            self.kept.append({"outputs": made_anew})
        elif self.kind == "state dicts":
            self.kept.append({name: value.clone() for name, value in self.net.state_dict().items()})
        elif self.kind == "a matrix each":
            self.kept.append(torch.zeros(WIDE, WIDE))

    def keep(self, out: Tensor) -> None:
        if self.kind in {"outputs", "cleared", "in training too"}:
            self.kept.append(out)
        elif self.kind == "arrays":
            self.kept.append(out.numpy())
        elif self.kind == "numbers":
            self.kept.append(out.mean().item())
        elif self.kind == "bounded":
            self.recent.append(out)
        elif self.kind == "joined":
            self.joined = torch.cat([self.joined, out])
        elif self.kind == "graphs":
            self.kept.append(out.mean())
        elif self.kind == "sum":
            self.total = self.total + out.mean()


def told(kind: str, run: Path) -> list[dict]:
    """Events of a run, in their order."""
    torch.manual_seed(0)
    loop = Loop(kind)
    with Recorder(run, model=loop.net):
        for _ in range(9):
            loop.train()
            loop.evaluate()
    rows = [row for part in parts(run, "events") for row in pq.read_table(part.path).to_pylist()]
    assert not [row for row in rows if row["event"] == "recorder-fault"]
    return [json.loads(row["detail"]) for row in rows if row["event"] == "evaluation-growth"]


@pytest.mark.parametrize(
    ("kind", "holder", "what", "added", "graph"),
    [
        ("outputs", "Loop.kept", "list", 4, False),
        ("arrays", "Loop.kept", "list", 4, False),
        ("joined", "Loop.joined", "longer", 256, False),
        ("graphs", "Loop.kept", "list", 4, True),
        ("sum", "Loop.total", "sum", 4, True),
        ("results", "Loop.kept", "list", 1, False),
    ],
)
def test_what_each_evaluation_adds_to_is_told_with_its_holder(
    kind: str, holder: str, what: str, added: int, graph: bool, tmp_path: Path
) -> None:
    found = told(kind, tmp_path / "run")

    assert found
    assert {(e["holder"], e["kind"], e["added"], e["with_graph"]) for e in found} == {(holder, what, added, graph)}
    assert all(e["length"] == added * e["evaluation"] for e in found)
    assert [e["evaluation"] for e in found] == sorted({e["evaluation"] for e in found})


@pytest.mark.parametrize(
    "kind",
    ["cleared", "made anew", "in training too", "numbers", "bounded", "state dicts", "a matrix each"],
)
def test_what_is_let_go_of_or_kept_on_purpose_is_no_event(kind: str, tmp_path: Path) -> None:
    assert told(kind, tmp_path / "run") == []
