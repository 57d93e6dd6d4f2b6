"""Which optimizers the script has: frameworks hand it one that wraps the one that steps, and both are one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder import Recorder
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

Optimizer = torch.optim.Optimizer


class Wrapper(Optimizer):
    """An optimizer to isinstance, with nothing of its own: transformers' Trainer gets such a one from accelerate."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:
        return self.optimizer.state

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def step(self, closure: Any = None) -> None:
        self.optimizer.step(closure)


class Lookahead(Optimizer):
    """Steps, and makes the one inside step."""

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(optimizer.param_groups, {})
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups

    def step(self, closure: Any = None) -> None:
        self.optimizer.step(closure)


def train(run: Path, wrap: Callable[[Optimizer], Optimizer], *, early: bool = False) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    wrapper = wrap(torch.optim.AdamW(model.parameters(), 1e-2))
    with Recorder(run, optimizer=[wrapper] if early else None):
        scheduler = torch.optim.lr_scheduler.LambdaLR(wrapper, lambda n: 0.99**n)
        model[2] = nn.Linear(8, 2)  # which the optimizer does not know
        for _ in range(20):
            wrapper.zero_grad()
            x = torch.randn(16, 4)
            model(x).sub(x[:, :2]).square().mean().backward()
            wrapper.step()
            scheduler.step()


def optimizer_ids(trace: Trace, table: str) -> set[int]:
    rows = trace.rows(f"SELECT DISTINCT optimizer_id FROM {table} WHERE optimizer_id IS NOT NULL")  # noqa: S608 # own names
    return {row["optimizer_id"] for row in rows}


@pytest.mark.parametrize("early", [False, True], ids=["met by its scheduler", "attached"])
def test_a_wrapper_and_the_optimizer_in_it_are_one(tmp_path, early):
    train(tmp_path / "run", Wrapper, early=early)
    with Trace(tmp_path / "run") as trace:
        for table in ("steps", "parameters", "param_groups", "schedulers"):
            assert optimizer_ids(trace, table) == {0}, table
        assert len(trace.rows("FROM events WHERE event = 'optimizer-found'")) == 1
        found = diagnose(trace)
    assert [cause.name for cause in found.causes] == ["parameters-not-in-optimizer"]
    assert found.causes[0].module == "2"


def test_an_optimizer_that_steps_another_is_one_with_it(tmp_path):
    train(tmp_path / "run", Lookahead)
    with Trace(tmp_path / "run") as trace:
        for table in ("steps", "parameters", "param_groups", "schedulers"):
            assert optimizer_ids(trace, table) == {0}, table
        steps = trace.rows("SELECT step FROM steps WHERE stepped ORDER BY step")
        assert [row["step"] for row in steps] == list(range(20))
        state = trace.rows("SELECT DISTINCT tensor_name FROM tensors WHERE kind = 'optimizer_state'")
        assert "0.weight.exp_avg" in {row["tensor_name"] for row in state}
