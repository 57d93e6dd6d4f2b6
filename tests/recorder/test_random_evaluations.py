"""Evaluations that drop units are found, with the operator that drops them."""

import pytest
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.body, self.drop, self.head = how, nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        if self.how == "made":
            return self.head(nn.Dropout(0.5)(x))
        training = self.training if self.how == "flag" else True
        return self.head(self.drop(x) if self.how == "module" else nn.functional.dropout(x, 0.5, training))


@pytest.mark.parametrize(("how", "told"), [("module", []), ("function", [None]), ("made", ["Dropout"])])
def test_dropout_that_a_function_leaves_on_in_eval_mode_is_told(how: str, told: list[str | None], train) -> None:
    model = Net(how)

    def evaluate(step: int) -> None:
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                model(torch.randn(6, 4))
        model.train()

    done = train(model, lambda step: model(torch.randn(6, 4)).square().mean(), after=evaluate)
    assert [e["detail"].get("made") for e in done.events("random-evaluation")] == told
    assert all(e["detail"]["operator"] == "dropout" for e in done.events("random-evaluation"))


@pytest.mark.parametrize(("how", "told"), [("module", []), ("flag", [True])])
def test_a_model_in_train_mode_whose_forward_drops_by_a_function_is_told(how: str, told: list[bool], train) -> None:
    """A dropout module has a flag of its own, which tells the same."""
    model = Net(how)

    def evaluate(step: int) -> None:
        with torch.no_grad():
            for _ in range(3):
                model(torch.randn(6, 4))

    done = train(model, lambda step: model(torch.randn(6, 4)).square().mean(), after=evaluate)
    events = done.events("random-evaluation")
    assert [e["detail"]["training"] for e in events] == told
    assert all(e["module_id"] == 0 for e in events)
