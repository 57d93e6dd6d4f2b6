"""Tensors of a script without modules that are in the graph of each loss and in no optimizer."""

import json

import pytest
import torch
from torch import nn


def told(training):
    return [json.loads(row["detail"])["tensor"] for row in training.rows("events") if row["event"] == "leaf-not-held"]


W1 = torch.randn(8, 4).requires_grad_()
V1 = torch.randn(4, 4).requires_grad_()


def test_a_tensor_that_is_left_out_of_the_optimizers_list_is_told(train):
    optimizer = torch.optim.SGD([W1], 0.01)
    done = train(None, lambda step: (torch.randn(16, 8) @ W1 @ V1).square().mean(), steps=12, optimizer=optimizer)

    assert told(done) == ["V1"]


def test_one_that_the_script_moves_itself_is_not(train):
    w1, v1 = torch.randn(8, 4).requires_grad_(), torch.randn(4, 4).requires_grad_()
    optimizer = torch.optim.SGD([w1], 0.01)

    def by_hand(step):
        with torch.no_grad():
            v1.sub_(0.01 * v1.grad)
        v1.grad = None

    done = train(
        None, lambda step: (torch.randn(16, 8) @ w1 @ v1).square().mean(), steps=12, optimizer=optimizer, after=by_hand
    )
    assert told(done) == []


def test_points_at_which_a_module_is_differentiated_are_not(train):
    points, scale = torch.linspace(0, 1, 32)[:, None].requires_grad_(), torch.ones(16).requires_grad_()
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD([*model.parameters(), scale], 0.01)

    def residual(step):
        (slope,) = torch.autograd.grad(model(points).sum(), points, create_graph=True)
        return (slope - scale.mean()).square().mean() + model(points).square().mean()

    assert told(train(model, residual, steps=12, optimizer=optimizer)) == []


class Started(nn.Module):
    """Adds a start value that is learnt, if it is held."""

    def __init__(self, start: torch.Tensor) -> None:
        super().__init__()
        self.start, self.body = start, nn.Linear(4, 4)

    def forward(self, x):
        return self.body(x + self.start)


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (torch.zeros(1, 4, requires_grad=True), ["start"]),
        (nn.Parameter(torch.zeros(1, 4)), []),
        (torch.zeros(1, 4), []),
    ],
    ids=["plain", "parameter", "constant"],
)
def test_an_attribute_of_a_module_that_is_no_parameter_is_told(train, start, found):
    model = Started(start)
    done = train(model, lambda _: model(torch.randn(16, 4)).square().mean(), steps=12)

    assert [e["detail"]["attribute"] for e in done.events("leaf-attribute")] == found


def test_an_attribute_that_an_optimizer_was_given_by_hand_is_not(train):
    model = Started(torch.zeros(1, 4, requires_grad=True))
    optimizer = torch.optim.SGD([*model.parameters(), model.start], 0.01)
    done = train(model, lambda _: model(torch.randn(16, 4)).square().mean(), steps=12, optimizer=optimizer)

    assert done.events("leaf-attribute") == []
