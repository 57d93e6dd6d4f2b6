"""Buffers of a model are measured with each step, by their names."""

import pytest
import torch
from torch import nn


def test_running_statistics_are_measured_as_they_are_after_each_step(train) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    squares = []
    done = train(
        model,
        lambda step: model(torch.randn(16, 4)).square().sum(),
        after=lambda step: squares.append(model[1].running_mean.square().sum().item()),
    )

    (mean,) = [number for number, found in done.kinds().items() if found == ("buffer", "1.running_mean")]
    measured = [row["sum_sq"] for row in done.rows("tensor_stats") if row["tensor_id"] == mean]
    assert measured == pytest.approx(squares, rel=1e-5)
