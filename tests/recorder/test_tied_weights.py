"""Weights with two names: which share a storage, and when they no longer do."""

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
        self.head.weight = self.table.weight if tied else nn.Parameter(self.table.weight.detach().clone())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(tokens))


def test_a_tie_that_breaks_is_told_in_its_step(train) -> None:
    model = Reader(tied=True)

    def cut(step: int) -> None:
        if step == 3:
            model.head.weight = nn.Parameter(model.table.weight.detach().clone())

    done = train(model, lambda step: model(torch.arange(6)).square().mean(), before=cut)

    (told,) = done.events("weights-untied")
    assert told["step"] == 3
    assert told["detail"] == {"first": "table.weight", "second": "head.weight", "how": "no longer one tensor"}
    assert any(row["storage"] is not None for row in done.rows("tensors"))


def test_two_tensors_with_the_same_numbers_at_the_start_are_told(train) -> None:
    model = Reader(tied=False)
    done = train(model, lambda step: model(torch.arange(6)).square().mean())
    assert [e["detail"]["how"] for e in done.events("weights-untied")] == ["equal at the start, but two tensors"]
