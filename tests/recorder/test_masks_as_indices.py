"""Integers that were meant as a mask are found in the graph of a loss, and named; masks and other indices are not."""

from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder import Recorder
from firstfault.recorder.autograd.graph import nodes_down_to
from firstfault.recorder.autograd.masks_as_indices import mask_as_index
from torch import nn

ROWS = torch.randn(12, 3, requires_grad=True)
FLAGS = torch.tensor([0, 1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 1])


@pytest.mark.parametrize(
    ("taken", "found"),
    [
        (ROWS[FLAGS], (12, 6)),
        (ROWS.sum(1)[FLAGS], (12, 6)),
        (ROWS[FLAGS.bool()], None),
        (ROWS[FLAGS == 1], None),
        (ROWS[FLAGS + 1], None),
        (ROWS[torch.zeros(12, dtype=torch.int64)], None),
        (ROWS[:2][FLAGS], None),
        (ROWS[:6][FLAGS[:6]], None),
        (ROWS[FLAGS, FLAGS], None),
        (ROWS.T[:, FLAGS], None),
    ],
)
def test_zeros_and_ones_of_integers_are_told_from_a_mask(taken: torch.Tensor, found: tuple[int, int] | None) -> None:
    assert mask_as_index(nodes_down_to(taken.sum(), 0)) == found


@pytest.mark.parametrize("as_mask", [False, True])
@pytest.mark.usefixtures("objects_of_the_test_alone")
def test_a_loss_of_two_rows_is_named(tmp_path: Path, as_mask: bool) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Recorder(tmp_path / "run"):
        for _ in range(12):
            x = torch.randn(16, 4)
            event = (torch.rand(16) < 0.5).long()
            risk = model(x).squeeze(1)
            optimizer.zero_grad()
            loss = -(risk - risk.logsumexp(0))[event.bool() if as_mask else event].mean()
            loss.backward()
            optimizer.step()
    with Trace(tmp_path / "run") as trace:
        found = [(c.name, c.step) for c in diagnose(trace).causes if c.severity == "error"]
    assert found == ([] if as_mask else [("mask-taken-as-index", 0)])
