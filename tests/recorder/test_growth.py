"""What grows in memory is named with its holder and the line that adds to it; nothing is kept alive for it."""

import gc
import weakref
from collections import defaultdict, deque
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import firstfault.recorder.memory.growth
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from firstfault.recorder import Recorder
from firstfault.recorder.memory.growing_tensors import chain
from firstfault.recorder.memory.owners import holders_of
from firstfault.recorder.script.statements import additions
from firstfault.schemas.files.layout import parts
from torch import nn

GATHERED: list[object] = []
BY_NAME: dict[str, list[object]] = defaultdict(list)


def rows(run: Path, table: str) -> list[dict]:
    return [row for part in parts(run, table) for row in pq.read_table(part.path).to_pylist()]


LEAK = """
import torch
import torch.nn.functional as F
torch.set_num_threads(1)

class Recorder:
    def __init__(self):
        self.frames = {{"all": []}}

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
opt = torch.optim.Adam(model.parameters())
recorder = Recorder()
for i in range({steps}):
    out = model(torch.randn(4, 8))
    opt.zero_grad()
    out.square().mean().backward()
    opt.step()
    {statement}
"""


def test_a_leak_of_a_megabyte_a_step_is_named_with_its_line_within_fifty_steps(bench: Any) -> None:
    script = bench.write(LEAK.format(steps=50, statement='recorder.frames["all"].append(torch.randn(512, 512))'))
    bench.record(str(script))

    found = [row for row in rows(bench.run, "memory_owners") if row["step"] < 50]

    assert {row["holder"] for row in found} == {"Recorder.frames['all']"}
    assert {row["place"] for row in found} == {"script.py:18 in <module>"}
    assert {(row["bytes_each"], row["rate"], row["since_step"]) for row in found} == {(2**20, 1.0, 0)}
    blocks = [row for row in rows(bench.run, "memory_blocks") if row["shape"] == [512, 512]]
    assert all(row["bytes"] == row["blocks"] * 2**20 for row in blocks)
    assert blocks


def test_a_run_in_which_nothing_grows_is_not_looked_at(bench: Any) -> None:
    script = bench.write(LEAK.format(steps=40, statement='recorder.frames["all"] = [torch.randn(512, 512)]'))
    bench.record(str(script))

    assert rows(bench.run, "memory_owners") == []
    assert {row["forward_graphs_alive"] for row in rows(bench.run, "steps")} == {0}


def test_a_sum_that_keeps_its_graphs_is_told_from_a_list_of_outputs(bench: Any) -> None:
    script = bench.write(LEAK.format(steps=30, statement="total = out.sum() if i == 0 else total + out.sum()"))
    bench.record(str(script))
    (kind, holder, place), *others = {(r["kind"], r["holder"], r["place"]) for r in rows(bench.run, "memory_owners")}

    assert (kind, holder, place) == ("sum", "total", None)  # an expression with a condition is no plain sum
    assert others == []


@pytest.mark.parametrize(
    "statement",
    [
        "total = 0.9 * total + 0.1 * loss",
        "total = 0.1 * loss + (1 - 0.1) * total",
        "total = (total * 9 + loss) / 10",
        "total = total.lerp(loss, 0.1)",
        "total = total - 0.1 * (total - loss)",
    ],
)
def test_a_moving_average_that_keeps_its_graphs_is_a_chain_like_a_sum(statement: str) -> None:
    weight = torch.ones(3, requires_grad=True)
    total = weight.sum() + 0.5
    lengths = []
    for _ in range(8):
        loss = (weight * 2).mean() + weight.abs().mean()  # a sum of its own
        space = {"total": total, "loss": loss}
        exec(statement, space)
        total = space["total"]
        lengths.append(chain(total)[1])

    assert {b - a for a, b in pairwise(lengths[3:])} == {1}


def test_looks_keep_nothing_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firstfault.recorder.memory.growth, "_KEPT", 2)
    model, kept, refs = nn.Linear(6, 3), [], []
    opt = torch.optim.SGD(model.parameters(), 0.1)
    gc.collect()
    gc.disable()
    try:
        with Recorder(tmp_path / "run", model=model):
            for _ in range(24):
                out = model(torch.randn(4, 6))
                opt.zero_grad()
                F.cross_entropy(out, torch.zeros(4, dtype=torch.long)).backward()
                opt.step()
                kept.append(out)
                refs.append(weakref.ref(out))
            del out
            kept.clear()
            alive = sum(ref() is not None for ref in refs)
    finally:
        gc.enable()

    assert alive == 0
    named = {row["holder"] for row in rows(tmp_path / "run", "memory_owners")}
    assert all(name.startswith("kept") for name in named)  # or refs: Python 3.11 shows no local variables
    assert named


def test_a_class_that_refuses_to_be_looked_at_does_no_harm(tmp_path: Path) -> None:
    class Shy:
        asked = 0

        def __getattr__(self, name: str) -> object:
            Shy.asked += 1
            raise RuntimeError(name)

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        __hash__ = None  # type: ignore[assignment]

        def __len__(self) -> int:
            raise RuntimeError("measured")

    model, shy = nn.Linear(6, 3), []
    opt = torch.optim.SGD(model.parameters(), 0.1)
    GATHERED.clear()
    with Recorder(tmp_path / "run", model=model):
        for _ in range(24):
            opt.zero_grad()
            out = model(torch.randn(4, 6))
            out.sum().backward()
            opt.step()
            shy.append(Shy())
            GATHERED.append((out, Shy(), b"x" * 9000))

    faults = [row for row in rows(tmp_path / "run", "events") if row["event"] == "recorder-fault"]
    assert faults == []
    assert "GATHERED" in {row["holder"] for row in rows(tmp_path / "run", "memory_owners")}


class Owner:
    shared: ClassVar[list[object]] = []

    def __init__(self) -> None:
        self.queue: deque[object] = deque()
        self.tree = {"a": {"b": [object()]}}

    def add(self, x: object) -> None:
        self.queue.append(x)
        self.tree["a"]["b"].append(x)


def test_holders_are_named_as_the_source_names_them() -> None:
    owner, captured = Owner(), [object()]

    def keep(x: object) -> None:
        captured.append(x)

    Owner.shared.append(keep)
    BY_NAME["val"].append(object())

    targets = [BY_NAME["val"], owner.queue, owner.tree["a"]["b"], captured, Owner.shared]
    found = holders_of(targets, ["list"] * 5, [False] * 5, lambda o: False)

    names = [(h.name, h.scope.partition(" ")[0]) for h in found if h is not None]
    assert names == [
        ("BY_NAME['val']", "global"),
        ("Owner.queue", "attribute"),
        ("Owner.tree['a']['b']", "attribute"),
        ("captured", "variable"),
        ("Owner.shared", "class"),
    ]
    expressions = [h.expression for h in found if h is not None]
    assert expressions[1:4] == ["self.queue.append(x)", 'self.tree["a"]["b"].append(x)', "captured.append(x)"]


def test_statements_that_add_are_found_in_the_source(tmp_path: Path) -> None:
    file = tmp_path / "s.py"
    file.write_text(
        "def f(x, log, self, i):\n"
        "    log['a'].append(x)\n"
        "    self.cache[i] = x\n"
        "    total += x\n"
        "    self.all = torch.cat([self.all, x])\n"
        "    names.add(x)\n"
        "    losses.append(x.item())\n"
        "    y = x + 1\n",
        "utf-8",
    )
    found = {(a.line, a.root, a.attributes, a.kind, a.numbers) for a in additions(str(file))}

    assert found == {
        (2, "log", (), "list", False),
        (3, "self", ("cache",), "dict", False),
        (4, "total", (), "sum", False),
        (4, "total", (), "list", False),
        (5, "self", ("all",), "sum", False),
        (6, "names", (), "set", False),
        (7, "losses", (), "list", True),
    }
