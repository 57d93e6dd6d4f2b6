"""Copies of a model's weights: what was written to them, and by which name they are known."""

import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
import pytest
from firstfault.analyzer import Trace, diagnose

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


EVALUATED = """
import copy
import torch

torch.manual_seed(0)

class ModelEMA:
    def __init__(self, model):
        self.shadow = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.shadow.parameters(), model.parameters()):
            mine.lerp_(theirs, 0.05)

    def copy_to(self, model):
        for mine, theirs in zip(self.shadow.parameters(), model.parameters()):
            theirs.data.copy_(mine.data)

def train():
    truth = torch.randn(8, 1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    average, optimizer = ModelEMA(model), torch.optim.Adam(model.parameters(), 0.01)
    for step in range(60):
        x = torch.randn(32, 8)
        loss = (model(x) - x @ truth).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
        if step % 15 == 14:
            kept = copy.deepcopy(model.state_dict())
            average.copy_to(model)
            model.eval()
            with torch.no_grad():
                x = torch.randn(64, 8)
                print((model(x) - x @ truth).square().mean().item())
            model.train()
            AFTER

train()
"""


@pytest.mark.parametrize(("after", "found"), [("pass", [15]), ("model.load_state_dict(kept)", [])])
def test_a_training_that_goes_on_from_its_average_is_named(tmp_path: Path, after: str, found: list[int]) -> None:
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text(EVALUATED.replace("AFTER", after))
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), str(script)]
    forked.run(command, check=True, capture_output=True)
    with Trace(run) as trace:
        causes = [cause for cause in diagnose(trace).causes if cause.name == "trained-from-average"]
    assert [cause.step for cause in causes] == found
    assert all(cause.severity == "error" for cause in causes)
