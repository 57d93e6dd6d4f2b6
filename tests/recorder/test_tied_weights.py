"""Weights with two names: which share a storage, and when they no longer do."""

import pytest
import torch
from firstfault.recorder import Recorder
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


class Wrapped(nn.Module):
    def __init__(self, *, ties_again: bool) -> None:
        super().__init__()
        with torch.device("meta"):
            self.reader = Reader(tied=True)
        self.reader = self.reader.to_empty(device="cpu")
        for weight in self.reader.parameters():
            nn.init.normal_(weight)
        if ties_again:
            self.reader.head.weight = self.reader.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.reader(tokens)


@pytest.mark.parametrize(("ties_again", "found"), [(False, ["no longer one tensor"]), (True, [])])
def test_a_tie_that_new_tensors_of_a_meta_model_lose_is_told_unless_it_is_made_again(
    tmp_path, training_of, ties_again, found
) -> None:
    with Recorder(tmp_path / "run", budget="off"):
        model = Wrapped(ties_again=ties_again)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            model(torch.arange(6)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    told = training_of(tmp_path / "run").events("weights-untied")
    assert [e["detail"]["how"] for e in told] == found
    assert {(e["step"], e["detail"]["first"], e["detail"]["second"]) for e in told} <= {
        (0, "reader.table.weight", "reader.head.weight")
    }
