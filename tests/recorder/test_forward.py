"""Which model is called, in which mode, and how often it is evaluated."""

import torch
from torch import nn


def test_modules_have_their_names_and_evaluations_are_counted(train) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 2)))

    def evaluate(step: int) -> None:
        if step == 2:
            model.eval()
            with torch.no_grad():
                model(torch.randn(3, 4))
                model(torch.randn(3, 4))
            model.train()

    done = train(model, lambda step: model(torch.randn(3, 4)).square().mean(), after=evaluate)

    assert {row["module"] for row in done.rows("modules")} == {"", "0", "1", "1.0", "1.1"}
    assert [row["eval_forwards"] or 0 for row in done.rows("steps")].count(2) == 1
    assert sum(row["eval_forwards"] or 0 for row in done.rows("steps")) == 2
    assert {row["training"] for row in done.rows("steps")[:2]} == {True}
    assert len(done.events("model-found")) == 1


def test_a_model_that_is_found_inside_a_forward_says_in_which(train) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(4, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.Linear(8, 2)(self.body(x))

    net = Net()

    done = train(net, lambda step: net(torch.randn(3, 4)).square().mean())

    of_net, *inner = done.events("model-found")
    assert not of_net["detail"]
    assert len(inner) > 1
    assert all(row["detail"] == {"within": of_net["module_id"]} for row in inner)
