"""Gradients that a script changes itself before the step are told from those that clipping changes."""

from collections.abc import Callable

import pytest
import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from torch import nn


def divide(model: nn.Module) -> None:
    for p in model.parameters():
        p.grad /= 2


def clip(model: nn.Module) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def clip_by_value(model: nn.Module) -> None:
    nn.utils.clip_grad_value_(model.parameters(), 0.01, foreach=True)


def both(model: nn.Module) -> None:
    divide(model)
    clip(model)


def nothing(_: nn.Module) -> None:
    pass


CHANGES = [(divide, 1), (both, 1), (clip, 0), (clip_by_value, 0), (nothing, 0)]


@pytest.mark.parametrize(("before_step", "told"), CHANGES)
def test_only_what_the_script_changes_is_told(before_step: Callable[[nn.Module], None], told: int, tmp_path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with Recorder(tmp_path / "run"):
        for _ in range(4):
            for _ in range(2):
                model(torch.randn(3, 4)).square().mean().backward()
            before_step(model)
            optimizer.step()
            optimizer.zero_grad()

    with Trace(tmp_path / "run") as trace:
        events = trace.sql("FROM events WHERE event = 'gradients-scaled'")
    assert len(events) == told
