"""What evaluations give to a loss module is told, and nothing of what the training gives it."""

import pytest
import torch
from torch import nn


class OfProbabilities(nn.CrossEntropyLoss):
    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:  # noqa: A002 - as torch calls it
        return -(target * input.log()).sum()


@pytest.mark.parametrize(
    ("criterion", "give", "near_one"),
    [
        (nn.CrossEntropyLoss(), lambda scores: scores.softmax(1), True),
        (nn.CrossEntropyLoss(), lambda scores: scores, False),
        (nn.BCEWithLogitsLoss(), lambda scores: scores.sigmoid(), None),
        (nn.MSELoss(), lambda scores: scores, "nothing"),
        (OfProbabilities(), lambda scores: scores.softmax(1), "nothing"),
        (nn.functional.cross_entropy, lambda scores: scores.softmax(1), "nothing"),
    ],
)
def test_what_an_evaluation_gives_to_its_loss_is_told(criterion, give, near_one, train) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)

    def target(scores: torch.Tensor) -> torch.Tensor:
        return torch.zeros(6, dtype=torch.long) if near_one is not None and near_one != "nothing" else scores.sigmoid()

    def evaluate(step: int) -> None:
        with torch.no_grad():
            scores = model(torch.randn(6, 4) * 5)
            wanted = target(scores)
            criterion(give(scores), wanted if near_one != "nothing" else scores.softmax(1))

    done = train(model, lambda step: model(torch.randn(6, 4)).square().mean(), after=evaluate)
    told = [event["detail"] for event in done.events("evaluated-loss")]
    if near_one == "nothing":
        assert told == []
        return
    assert len(told) > 2
    assert {t["loss"] for t in told} == {type(criterion).__name__}
    assert all((t["off_one"] < 1e-5) == near_one for t in told if near_one is not None)
    assert all(("classes" in t) == (near_one is not None) for t in told)
    assert near_one is False or all(0 <= t["low"] <= t["high"] <= 1 for t in told)


def test_few_looks_suffice(train) -> None:
    model, criterion = nn.Linear(4, 3), nn.CrossEntropyLoss()

    def evaluate(step: int) -> None:
        with torch.no_grad():
            for _ in range(10):
                criterion(model(torch.randn(6, 4)), torch.zeros(6, dtype=torch.long))

    done = train(model, lambda step: model(torch.randn(6, 4)).square().mean(), after=evaluate)
    assert len(done.events("evaluated-loss")) == 12
