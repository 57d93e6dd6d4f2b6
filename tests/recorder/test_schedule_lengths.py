"""Lengths of schedules, by the names that schedulers and their functions use."""

from argparse import Namespace
from functools import partial
from typing import Any

import pytest
import torch
from firstfault.recorder.loop.schedule_lengths import planned_steps
from torch.optim import lr_scheduler

WARMUP_STEPS, EPOCHS = 7, 3


def _linear(step: int, *, num_warmup_steps: int, num_training_steps: int) -> float:
    return min(1.0, step / num_warmup_steps, (num_training_steps - step) / num_training_steps)


def _closure(warmup: int, max_iters: int) -> Any:
    return lambda step: min(step / warmup, 1 - step / max_iters)


def _by_namespace(args: Namespace) -> Any:
    return lambda step: min(1.0, step / args.warmup_steps)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (partial(_linear, num_warmup_steps=20, num_training_steps=90), {"warmup": 20, "planned": 90}),
        (_closure(20, 90), {"warmup": 20, "planned": 90}),
        (_by_namespace(Namespace(warmup_steps=20, lr="no")), {"warmup": 20}),
        (lambda step: min(1.0, step / WARMUP_STEPS), {"warmup": 7}),
        (lambda epoch: 0.9 ** (epoch / EPOCHS), {}),
        (lambda step, warmup_ratio=1, warmup_epochs=4: 1.0, {}),
    ],
)
def test_a_function_of_the_step_tells_them(function: Any, found: dict[str, int]) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    assert planned_steps(lr_scheduler.LambdaLR(optimizer, function)) == found


def test_a_part_that_raises_the_rate_is_a_warm_up() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    rises = lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=30)
    falls = lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=30)
    both = lr_scheduler.SequentialLR(optimizer, [rises, lr_scheduler.CosineAnnealingLR(optimizer, 60)], [30])

    assert planned_steps(rises) == {"warmup": 30}
    assert planned_steps(falls) == {}
    assert planned_steps(both) == {"warmup": 30}
