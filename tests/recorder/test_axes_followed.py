"""Axes that a model mixes are told once for each kind of graph."""

import pytest
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.body, self.head = how, nn.Conv1d(3, 6, 1), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        x = x.reshape(len(x), -1, 6) if self.how == "view" else x.transpose(1, 2)
        return self.head(x)


@pytest.mark.parametrize(("how", "told"), [("view", 1), ("transpose", 0)])
def test_a_view_in_the_place_of_a_transpose_is_told(how: str, told: int, train) -> None:
    model = Net(how)
    done = train(model, lambda step: model(torch.randn(5, 3, 7)).square().mean())
    assert len(done.events("axes-mixed")) == told


class Head(nn.Module):
    def __init__(self, along: int, *, masked: bool = True, over_slots: bool = False) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(6, 6) for _ in range(3))
        self.along, self.masked, self.over_slots = along, masked, over_slots

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(-2, -1)
        if self.masked:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, float("-inf"))
        weights = torch.softmax(scores, dim=self.along)
        if self.over_slots:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights @ self.value(x)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (Head(-2), 1),
        (Head(1), 1),
        (Head(-1), 0),
        (Head(-2, masked=False), 0),  # slots compete for what they see
        (Head(-2, masked=False, over_slots=True), 0),
    ],
)
def test_a_causal_attention_whose_softmax_goes_along_its_queries_is_told(head: Head, told: int, train) -> None:
    done = train(head, lambda step: head(torch.randn(5, 7, 6)).square().mean())
    events = done.events("softmax-of-queries")
    assert len(events) == told
    assert all(e["detail"]["softmaxes"] == 1 for e in events)


def test_keys_before_queries_may_be_normalised_along_the_first_of_the_two(train) -> None:
    """Scores of [keys, queries] hide what is below the diagonal."""

    class Turned(Head):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores = self.key(x) @ self.query(x).transpose(-2, -1)
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu() == 0, float("-inf"))
            return torch.softmax(scores, dim=-2).transpose(-2, -1) @ self.value(x)

    head = Turned(-2)
    done = train(head, lambda step: head(torch.randn(5, 7, 6)).square().mean())
    assert done.events("softmax-of-queries") == []
