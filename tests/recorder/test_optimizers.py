"""What ends an iteration, where optimizers step in unusual ways."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn

pytestmark = pytest.mark.usefixtures("objects_of_the_test_alone")

Optimizer = torch.optim.Optimizer


class Louder(torch.optim.SGD):
    """Its step calls that of its base, which torch has hooked as well."""

    failing = 0

    def step(self, closure: Any = None) -> Any:
        if Louder.failing:
            Louder.failing -= 1
            raise ValueError("not now")
        return super().step(closure)


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
