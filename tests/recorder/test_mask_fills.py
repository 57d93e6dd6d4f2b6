"""Masks that leave probability under them are told, and what only looks like them is not."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS, LENGTH, WIDTH = 8, 6, 16
BEHIND = torch.ones(LENGTH, LENGTH).triu(1).bool()

Attends = Callable[[Tensor, Tensor], Tensor]
"""From scores and padding (ROWS, 1, LENGTH) to weights."""


class Reader(nn.Module):
    """One layer of attention by hand, and a pooled output."""

    def __init__(self, attends: Attends) -> None:
        super().__init__()
        self.token, self.head, self.attends = nn.Embedding(20, WIDTH), nn.Linear(WIDTH, 3), attends
        self.q, self.k = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        h = self.token(x)
        scores = self.q(h) @ self.k(h).transpose(-2, -1) / WIDTH**0.5
        return self.head((self.attends(scores, padding) @ h).mean(1))


def filled(value: float) -> Attends:
    return lambda scores, padding: scores.masked_fill(padding, value).softmax(-1)


def later(value: float) -> Attends:
    return lambda scores, _: torch.softmax(scores.masked_fill(BEHIND, value) / 2.0, -1)


def multiplied(scores: Tensor, padding: Tensor) -> Tensor:
    return (scores * (~padding).float()).softmax(-1)


def by_where(scores: Tensor, padding: Tensor) -> Tensor:
    return torch.where(padding, torch.tensor(1e-9), scores).softmax(-1)


def by_heads(scores: Tensor, padding: Tensor) -> Tensor:
    heads = torch.stack([scores, -scores], 1).masked_fill(padding[:, None], -1e-9)
    return heads.view(-1, LENGTH, LENGTH).softmax(-1).view(ROWS, 2, LENGTH, LENGTH).mean(1)


def loss_of(reader: Reader) -> Callable[[int], Tensor]:
    def loss(_: int) -> Tensor:
        lengths = torch.cat([torch.tensor([2, LENGTH]), torch.randint(2, LENGTH + 1, (ROWS - 2,))])
        padding = (torch.arange(LENGTH) >= lengths[:, None])[:, None]
        return F.cross_entropy(reader(torch.randint(20, (ROWS, LENGTH)), padding), torch.randint(3, (ROWS,)))

    return loss


@pytest.mark.parametrize(
    ("attends", "kind"),
    [
        *((filled(value), "padding") for value in (0.0, sys.float_info.min, -1e-9, 1e-9)),
        *((attends, "padding") for attends in (multiplied, by_where, by_heads)),
        (later(0.0), "later"),
    ],
)
def test_a_mask_that_leaves_probability_is_told(train: Any, attends: Attends, kind: str) -> None:
    reader = Reader(attends)
    events = train(reader, loss_of(reader)).events("mask-without-effect")
    assert {event["detail"]["kind"] for event in events} == {kind}
    assert len(events) >= 3
    assert all(event["detail"]["share"] > 0.1 for event in events)


def normalised_again(scores: Tensor, padding: Tensor) -> Tensor:
    kept = (~padding).float()
    weights = (scores * kept).softmax(-1) * kept
    return weights / weights.sum(-1, keepdim=True)


def distance_as_a_bias(scores: Tensor, padding: Tensor) -> Tensor:
    places = torch.arange(LENGTH)
    return (scores.masked_fill(padding, -1e4) - 0.5 * (places[:, None] - places).abs()).softmax(-1)


def whole_rows(scores: Tensor, padding: Tensor) -> Tensor:
    return scores.masked_fill(padding.transpose(1, 2), 0.0).softmax(-1)


def clamped(scores: Tensor, _: Tensor) -> Tensor:
    return scores.masked_fill(scores > 0.1, 0.1).softmax(-1)


def thresholded(scores: Tensor, _: Tensor) -> Tensor:
    return scores.masked_fill(scores.abs() < 0.05, 0.0).softmax(-1)


def itself(scores: Tensor, _: Tensor) -> Tensor:
    return scores.masked_fill(torch.eye(LENGTH).bool(), 0.0).softmax(-1)


def dropped(scores: Tensor, _: Tensor) -> Tensor:
    return F.dropout(scores, 0.3).softmax(-1)


def sums(scores: Tensor, padding: Tensor) -> Tensor:
    return scores.masked_fill(padding, 0.0) / LENGTH


@pytest.mark.parametrize(
    "attends",
    [
        *(filled(value) for value in (-1e4, -1e9, -20.0)),
        later(-1e9),
        normalised_again,
        distance_as_a_bias,
        whole_rows,
        clamped,
        thresholded,
        itself,
        dropped,
        sums,
    ],
)
def test_what_looks_like_one_is_not_told(train: Any, attends: Attends) -> None:
    reader = Reader(attends)
    assert train(reader, loss_of(reader)).events("mask-without-effect") == []


@pytest.mark.parametrize(("fill", "told"), [(sys.float_info.min, True), (-1e9, False)])
def test_a_policy_with_choices_that_are_not_legal(train: Any, fill: float, told: bool) -> None:
    policy = nn.Linear(4, 8)

    def loss(_: int) -> Tensor:
        legal = torch.rand(32, 8) < 0.6
        legal[:, 0] = True
        chances = torch.log_softmax(policy(torch.randn(32, 4)).masked_fill(~legal, fill), -1)
        return -(chances[:, 0] * torch.randn(32)).mean()

    events = train(policy, loss).events("mask-without-effect")
    assert {event["detail"]["kind"] for event in events} == ({"entries"} if told else set())


class Softmax(torch.autograd.Function):
    """A function of the script's own with a name of torch's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


def test_a_function_of_the_same_name_is_no_softmax(train: Any) -> None:
    policy = nn.Linear(4, 8)
    training = train(policy, lambda _: Softmax.apply(policy(torch.randn(2, 4))).pow(2).mean())
    assert training.events("mask-without-effect") == []
