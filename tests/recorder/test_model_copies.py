"""Copies of a model's weights: what was written to them, and by which name they are known."""

import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
from firstfault.analyzer import diagnose
from firstfault.analyzer.reading.trace import Trace
from firstfault.recorder.storage.segments import read_rows

SCRIPT = """
import copy
import torch

class ModelEMA:
    def __init__(self, model):
        self.module = copy.deepcopy(model).requires_grad_(False)

    def update(self, model):
        with torch.no_grad():
            for mine, theirs in zip(self.module.parameters(), model.parameters()):
                mine.lerp_(theirs, WEIGHT)

def train():
    model = torch.nn.Linear(4, 4)
    average, optimizer = ModelEMA(model), torch.optim.SGD(model.parameters(), 0.1)
    for step in range(8):
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 2:
            average.update(model)

train()
"""


def copies(folder: Path, weight: float) -> list[dict]:
    script = folder / "train.py"
    script.write_text(SCRIPT.replace("WEIGHT", str(weight)))
    run = folder / "run"
    forked.run(
        [sys.executable, "-m", "firstfault", "run", "--out", str(run), str(script)], check=True, capture_output=True
    )
    return [row for part in sorted((run / "copies").rglob("*.parquet")) for row in pq.read_table(part).to_pylist()]


def test_an_update_that_changes_nothing_is_seen_as_a_write_without_a_move(tmp_path: Path) -> None:
    rows = copies(tmp_path, 0.0)
    # the update comes after the step, and counts in the row of the step after
    assert {row["step"]: row["writes"] for row in rows if row["step"] >= 3} == {3: 0, 4: 1, 5: 0, 6: 1, 7: 0}
    assert {row["moved"] for row in rows} == {0.0}


def test_a_copy_bears_the_name_of_the_averaging_class_that_made_it(tmp_path: Path) -> None:
    rows = copies(tmp_path, 0.5)
    assert {row["name"] for row in rows} == {"ModelEMA.module"}
    assert all((row["moved"] > 0) == (row["writes"] > 0) for row in rows)


INSIDE = """
import copy
import torch
from torch import nn

def encoder():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen = encoder().requires_grad_(False)
        self.student = encoder()
        self.teacher = MAKE
        self.teacher.requires_grad_(False)
        self.predictor = nn.Linear(4, 4)

    def forward(self, x, y):
        with torch.no_grad():
            wanted = self.teacher(y)
        return (self.predictor(self.student(x + self.frozen(x).mean())) - wanted).square().mean()

    @torch.no_grad()
    def follow(self):
        for mine, theirs in zip(self.teacher.parameters(), self.student.parameters()):
            mine.data.lerp_(theirs.data, 0.1)

def train():
    torch.manual_seed(0)
    learner = Learner()
    learner.teacher.load_state_dict(learner.student.state_dict())
    optimizer = torch.optim.SGD(learner.parameters(), 0.1)
    for step in range(30):
        x = torch.randn(8, 8)
        learner(x, x + 0.1 * torch.randn(8, 8)).backward()
        optimizer.step()
        optimizer.zero_grad()
        FOLLOW

train()
"""


@pytest.mark.parametrize(
    ("made", "follow"),
    [
        ("encoder()", "learner.follow()"),
        pytest.param("copy.deepcopy(self.student)", "pass", marks=pytest.mark.suite),
    ],
)
def test_a_teacher_within_the_model_is_found_and_a_frozen_layer_is_not(bench, made, follow):
    bench.write(INSIDE.replace("MAKE", made).replace("FOLLOW", follow))
    run = bench.record("script.py").run
    rows = read_rows(run, "copies", ["name", "kind", "of_model", "moved"]).to_pylist()
    assert {(row["name"], row["kind"], row["of_model"]) for row in rows} == {
        ("Learner.teacher", "part", "Learner.student")
    }
    assert all((row["moved"] > 0) == (follow != "pass") for row in rows)
    with Trace(run) as trace:
        trace.prepare()
        named = [c.name for c in diagnose(trace).causes]
    assert ("ema-not-updated" in named) == (follow == "pass")


TEACHER_BESIDE = """
import copy
import torch
from torch import nn

def train():
    body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    model = nn.Sequential(body, nn.Linear(4, 4))
    teacher = copy.deepcopy(body)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(6):
        x = torch.randn(8, 8)
        with torch.no_grad():
            wanted = teacher(x)
        (model(x) - wanted).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        for mine, theirs in zip(teacher.parameters(), body.parameters()):
            mine.data.lerp_(theirs.data, 0.1)

train()
"""


def test_a_teacher_beside_the_model_that_follows_a_part_of_it_is_found(bench):
    bench.write(TEACHER_BESIDE)
    rows = read_rows(bench.record("script.py").run, "copies", ["name", "kind", "of_model", "moved"]).to_pylist()
    assert {(row["name"], row["kind"], row["of_model"]) for row in rows} == {("teacher", "part", "Sequential_2.0")}
    assert all(row["moved"] > 0 for row in rows)
