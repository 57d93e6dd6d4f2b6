"""A script that makes a model anew in each step, as adjoints of an ODE solver and clones for an inner loop do."""

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")


class Reversed(nn.Module):
    def __init__(self, field: nn.Module) -> None:
        super().__init__()
        self.field = field
        self.scale = nn.Linear(2, 2)

    def forward(self, y):
        return self.scale(-self.field(y))


def train(field: nn.Module, steps: int) -> None:
    optimizer = torch.optim.Adam(field.parameters(), lr=1e-3)
    for _ in range(steps):
        y = torch.randn(8, 2)
        loss = (y + 0.1 * Reversed(field)(y)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("steps", [60, 400])
def test_the_first_hundreds_have_numbers_of_their_own_and_all_others_the_last(tmp_path, steps):
    torch.manual_seed(0)
    with Recorder(tmp_path / "run", every=1, budget="off"):
        train(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)), steps)

    with Trace(tmp_path / "run") as trace:
        made = trace.sql("SELECT class_name, count(*) FROM modules GROUP BY 1 ORDER BY 1").rows()
        few = min(steps, 256)
        assert made == [("Linear", 2 + few), ("Reversed", few), ("Sequential", 1), ("Tanh", 1)]
        measured = (
            "SELECT count(DISTINCT step) FROM tensor_stats JOIN tensors USING (tensor_id) JOIN modules USING (module_id) "
            "WHERE kind = 'activation' AND class_name = '{}'"
        )
        for name in ("Reversed", "Tanh"):
            assert trace.sql(measured.format(name)).item() == steps
