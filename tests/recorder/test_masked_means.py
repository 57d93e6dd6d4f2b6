"""Means over all places of a loss of which a mask has left only the real ones."""

from typing import Any

import pytest
import torch
from firstfault.recorder.autograd.masked_means import masked_mean
from torch import Tensor

LENGTHS = torch.tensor([2, 5, 6, 3])
PADDED = (torch.arange(6)[None] < LENGTHS[:, None]).float()


def errors() -> Tensor:
    return torch.randn(4, 6, 3, requires_grad=True).square()


@pytest.mark.parametrize(
    ("loss", "factor"),
    [
        (lambda e: (e.sum(2) * PADDED).mean(), 1.0),
        (lambda e: 0.5 * (PADDED * e.sum(2)).mean() + e.mean(), 0.5),
        (lambda e: (e * PADDED[:, :, None]).mean() / 4, 0.25),
        (lambda e: (e * PADDED[:, :, None].expand(4, 6, 3)).mean(), 1.0),
        (lambda e: (e.sum(2) * PADDED.flip(1).bool()).reshape(-1).mean(), 1.0),
    ],
    ids=["plain", "half", "divided", "expanded", "padded_in_front"],
)
def test_a_mean_over_padding_is_seen(loss: Any, factor: float) -> None:
    found = masked_mean(loss(errors()))
    assert found is not None
    assert (found.shape, found.places, found.left_out) == ([4, 6], 24, 8)
    assert found.factor == pytest.approx(factor)


@pytest.mark.parametrize(
    "loss",
    [
        lambda e: (e.sum(2) * PADDED).sum() / PADDED.sum(),
        lambda e: (e.sum(2) * torch.tensor([[1.0, 0.0, 1.0, 0.0, 1.0, 1.0]]).expand(4, 6)).mean(),
        lambda e: (e.sum((1, 2)) * torch.tensor([1.0, 1.0, 0.0, 0.0])).mean(),
        lambda e: (e.sum(2) * PADDED * 0.7).mean(),
        lambda e: (e.sum(2) * torch.ones(4, 6)).mean(),
        lambda e: (e.sum(2) * (e.sum(2) > 3)).mean(),
    ],
    ids=["divided_by_what_is_left", "random_places", "samples", "weights", "all_ones", "large_errors"],
)
def test_other_masks_and_sums_are_no_mean_over_padding(loss: Any) -> None:
    torch.manual_seed(0)
    assert masked_mean(loss(errors())) is None
