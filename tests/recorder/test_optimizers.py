"""Frameworks hand the script an optimizer that wraps the one that steps: both are one, by whatever way the wrapper is met."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder import Recorder
from torch import nn

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


class Louder(torch.optim.SGD):
    """Its step calls that of its base, which torch has hooked as well."""

    failing = 0

    def step(self, closure: Any = None) -> Any:
        if Louder.failing:
            Louder.failing -= 1
            raise ValueError("not now")
        return super().step(closure)


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


def test_a_step_that_calls_the_step_of_its_base_counts_once_also_after_one_that_failed(tmp_path):
    model = nn.Linear(4, 2)
    torch.optim.SGD(model.parameters(), 0.1)  # the first of a class hooks its step
    optimizer = Louder(model.parameters(), 0.1)
    with Recorder(tmp_path / "run"):
        for step in range(12):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            Louder.failing = int(step == 5)
            with contextlib.suppress(ValueError):
                optimizer.step()
    with Trace(tmp_path / "run") as trace:
        steps = trace.rows("SELECT step, stepped FROM steps WHERE completed ORDER BY step")
        assert [row["stepped"] for row in steps].count(True) == 11
        assert trace.rows("SELECT message FROM events WHERE event = 'recorder-fault'") == []


class SharpnessAware(Optimizer):
    """Climbs before it descends: two backwards and one step of another optimizer, with gradients cleared between them."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})
        self.base = torch.optim.SGD(self.param_groups, lr)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self) -> None:
        for p in self.param_groups[0]["params"]:
            self.state[p]["climbed"] = 0.01 * p.grad
            p.add_(self.state[p]["climbed"])
        self.zero_grad()

    @torch.no_grad()
    def descend(self) -> None:
        for p in self.param_groups[0]["params"]:
            p.sub_(self.state[p]["climbed"])
        self.base.step()
        self.zero_grad()


def steps_of(run: Path) -> list[tuple[int, bool, int]]:
    with Trace(run) as trace:
        rows = trace.rows("SELECT step, stepped, microbatches FROM steps WHERE completed ORDER BY step")
        assert trace.rows("SELECT message FROM events WHERE event = 'recorder-fault'") == []
    return [(row["step"], row["stepped"], row["microbatches"]) for row in rows]


def test_gradients_cleared_between_the_two_halves_of_one_step_end_no_iteration(tmp_path):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with Recorder(tmp_path / "run"):
        optimizer = SharpnessAware(model.parameters(), 0.1)
        for _ in range(10):
            x = torch.randn(8, 4)
            model(x).square().mean().backward()
            optimizer.climb()
            model(x).square().mean().backward()
            optimizer.descend()
    assert steps_of(tmp_path / "run") == [(step, True, 2) for step in range(10)]


def test_gradients_of_two_losses_taken_one_by_one_from_one_forward_are_one_iteration(tmp_path):
    model = nn.Linear(4, 2)
    with Recorder(tmp_path / "run"):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(10):
            out = model(torch.randn(8, 4))
            taken = []
            for loss in (out[:, 0].square().mean(), out[:, 1].abs().mean()):
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                taken.append([p.grad.clone() for p in model.parameters()])
            for p, *gradients in zip(model.parameters(), *taken, strict=True):
                p.grad = sum(gradients)
            optimizer.step()
    assert [(step, stepped) for step, stepped, _ in steps_of(tmp_path / "run")] == [(step, True) for step in range(10)]


def test_an_optimizer_that_joins_late_steps_in_the_iteration_it_joins(tmp_path):
    body, head = nn.Linear(4, 8), nn.Linear(8, 2)
    first, second = torch.optim.SGD(head.parameters(), 0.1), torch.optim.SGD(body.parameters(), 0.1)
    with Recorder(tmp_path / "run"):
        for step in range(12):
            first.zero_grad()
            second.zero_grad()
            head(body(torch.randn(8, 4))).square().mean().backward()
            first.step()
            if step >= 6:
                second.step()
    with Trace(tmp_path / "run") as trace:
        rows = trace.rows("SELECT step, optimizer_id FROM steps WHERE stepped ORDER BY step, optimizer_id")
        assert trace.rows("SELECT message FROM events WHERE event = 'recorder-fault'") == []
    expected = [(step, number) for step in range(12) for number in ((0, 1) if step >= 6 else (0,))]
    assert [tuple(row.values()) for row in rows] == expected
