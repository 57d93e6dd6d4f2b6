"""Forwards that use weights as they were before an update are told."""

import pytest
import torch
from torch import nn


@pytest.mark.parametrize(("once", "told_at"), [(True, [1, 2, 3, 4, 5]), (False, [])])
def test_a_cast_that_is_made_once_for_all_steps_is_told(once: bool, told_at: list[int], train) -> None:
    gain, model = nn.Parameter(torch.ones(4)), nn.Linear(4, 2)
    optimizer = torch.optim.SGD([gain, *model.parameters()], 0.01)
    x, kept = torch.randn(3, 4), gain.double()

    def loss_of(step: int) -> torch.Tensor:
        return model((x * (kept if once else gain.double())).float()).square().mean()

    told = train(model, loss_of, optimizer=optimizer).events("stale-forward-weights")

    assert [e["step"] for e in told] == told_at
    assert all((e["detail"]["stale"], e["detail"]["weights"], e["detail"]["since"]) == (1, 3, 0) for e in told)
