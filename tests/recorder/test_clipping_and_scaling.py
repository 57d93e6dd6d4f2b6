"""Gradient clipping and loss scaling: what was clipped, to what, and steps that a scaler leaves out."""

import sys
from pathlib import Path

import forked
import pytest
import torch
from torch import nn

SCRIPT = Path(__file__).parent / "scripts" / "styles.py"


def test_the_norm_that_clipping_found_and_its_limit_stand_in_the_step(train) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    found = []

    def loss_of(step: int) -> torch.Tensor:
        return 100 * model(torch.ones(3, 4)).square().mean()

    class Clipped:
        """The optimizer, whose gradients are clipped first."""

        zero_grad = staticmethod(optimizer.zero_grad)

        @staticmethod
        def step() -> None:
            found.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
            optimizer.step()

    done = train(model, loss_of, optimizer=Clipped)

    steps = done.rows("steps")
    assert [row["clip_norm"] for row in steps] == pytest.approx(found, rel=1e-5)
    assert {(row["clip_max_norm"], row["clip_numel"], row["clip_scaled"]) for row in steps} == {(0.5, 10, False)}


def test_a_step_left_out_by_the_scaler_is_counted_and_marked(tmp_path: Path, training_of) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--out", str(run), str(SCRIPT), "scaler"]
    forked.run(command, check=True)

    steps = training_of(run).rows("steps")

    skipped = [row["step"] for row in steps if row["skipped_by_scaler"]]
    assert skipped
    assert skipped == list(range(len(skipped)))
    assert all(not row["stepped"] for row in steps if row["step"] in skipped)
    assert steps[0]["loss_scale"] == 2.0**40
    assert steps[0]["loss"] < 10  # the loss itself, not the scaled one
