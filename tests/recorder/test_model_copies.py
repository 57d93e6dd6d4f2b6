"""Copies of a model's weights: what was written to them, and by which name they are known."""

import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq

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
