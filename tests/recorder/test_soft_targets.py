"""A softmax beside the dimension of soft targets is found in the graph of the loss; right ones, and masks, are not."""

import pytest
import torch
from firstfault.recorder.autograd.soft_targets import softmax_beside_targets
from torch.nn import functional as F

SCORES = torch.randn(3, 4, 5, requires_grad=True)
TARGETS = torch.randn(3, 4, 5).softmax(-1)


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (-(F.log_softmax(SCORES, 1) * TARGETS).sum(-1).mean(), (1, 2, [3, 4, 5])),
        (
            0.4 * -torch.sum(TARGETS * F.log_softmax(SCORES, dim=1), dim=2)[:, 1:].mean() + SCORES.sum(),
            (1, 2, [3, 4, 5]),
        ),
        (torch.sum(-F.log_softmax(SCORES, dim=-1) * TARGETS, dim=-1).mean(), None),
        (-(F.log_softmax(SCORES, 1) * TARGETS).sum(), None),
        (-(F.log_softmax(SCORES, -1) * torch.ones(3, 4, 1)).sum(1).mean(), None),
        (-(F.log_softmax(SCORES, -1) * torch.rand(3, 4, 5)).sum(1).mean(), None),
        (-(F.log_softmax(SCORES[0], 1) * TARGETS[0]).sum(-1).mean(), None),
        (F.kl_div(F.log_softmax(SCORES, 1), TARGETS, reduction="batchmean"), None),
    ],
)
def test_the_dimension_of_a_softmax_is_held_against_that_of_its_targets(
    loss: torch.Tensor, found: tuple[int, int, list[int]] | None
) -> None:
    assert softmax_beside_targets(loss) == found
