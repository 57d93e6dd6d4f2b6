"""How far each step moved the weights, from a sample of their elements."""

import pytest
import torch
from torch import nn


def test_the_update_of_a_weight_is_its_difference_and_elements_that_stay_are_counted(train) -> None:
    model = nn.Linear(4, 2, bias=False)
    before, moved = [], []
    batch = torch.tensor([[1.0, 1.0, 0.0, 1.0]])  # no gradient reaches the third column
    done = train(
        model,
        lambda step: model(batch).square().sum(),
        before=lambda step: before.append(model.weight.detach().clone()),
        after=lambda step: moved.append(model.weight.detach() - before[-1]),
    )

    (update,) = [number for number, found in done.kinds().items() if found == ("update", "weight")]
    measured = [row for row in done.rows("tensor_stats") if row["tensor_id"] == update]
    assert [r["sum_sq"] for r in measured] == pytest.approx([m.square().sum().item() for m in moved], rel=1e-4)
    assert {r["zero_count"] for r in measured} == {2}
    norms = [row["update_norm"] for row in done.rows("param_groups")]
    assert norms == pytest.approx([m.norm().item() for m in moved], rel=1e-4)
