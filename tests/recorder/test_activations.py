"""What modules put out, and the gradients of it, are what torch gives."""

import pytest
import torch
from torch import nn


def test_an_output_and_its_gradient_are_those_of_torch_and_a_container_that_passes_it_on_has_the_same_row(
    train,
) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU()))
    outputs, gradients = [], []

    def loss_of(step: int) -> torch.Tensor:
        out = model(torch.randn(3, 4))
        out.retain_grad()
        outputs.append(out)
        return out.square().sum()

    done = train(model, loss_of, after=lambda step: gradients.append(outputs[-1].grad.square().sum().item()))

    kinds = done.kinds()

    def measured(kind: str, name: str) -> list[float]:
        return [r["sum_sq"] for r in done.rows("tensor_stats") if kinds[r["tensor_id"]] == (kind, name)]

    assert measured("activation", "1.0:output0") == pytest.approx([o.square().sum().item() for o in outputs], rel=1e-5)
    assert measured("activation_gradient", "1.0:output0.grad") == pytest.approx(gradients, rel=1e-5)
    assert measured("activation", "1:output0") == measured("activation", "1.0:output0")


def test_a_weight_that_a_module_gives_out_bears_no_hook_of_ours(train):
    class GivesItsWeight(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.correction = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)

        def forward(self, x):
            return self.inner(x), self.correction.weight

    model = GivesItsWeight()

    def loss_of(_step):
        out, correction = model(torch.randn(8, 4))
        return (out @ correction).square().mean()

    training = train(model, loss_of, steps=6)
    assert model.correction.weight._backward_hooks in (None, {})
    assert [row for row in training.rows("probes") if row["probe"] == "hooks"] == []
