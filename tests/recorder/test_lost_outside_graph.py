"""What loses numbers outside any graph is found when the same code runs again after a lost loss."""

from typing import Any

import pytest
from firstfault.analyzer import Trace, diagnose

LOOP = """
import contextlib
import torch
from torch import nn
from torch.overrides import _get_current_function_mode_stack as modes

class SGD(torch.optim.SGD):
    def step(self, closure=None):
        print("modes", len(modes()))
        return super().step(closure)

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = SGD(net.parameters(), lr=0.01)

def weights(rare):
    return rare / rare.mean()

def accuracy(right, asked):
    return right / asked

with {around}:
    for i in range(30):
        x = torch.randn(8, 4)
        rare = torch.zeros(8) if i % 7 == 6 else torch.ones(8)
        loss = ((net(x).squeeze(1) - x.sum(1)).square() * weights(rare)).mean()
        opt.zero_grad()
        loss.backward()
        if {skips} and not loss.isfinite():
            opt.zero_grad()
            continue
        opt.step()
        {also}
"""


def record(bench: Any, *, around: str = "contextlib.nullcontext()", also: str = "pass", skips: bool = False) -> Any:
    return bench.record(str(bench.write(LOOP.format(around=around, also=also, skips=skips))))


def lines(recorded: Any) -> list[tuple[int, str]]:
    with Trace(recorded.run) as trace:
        found = trace.sql("SELECT step, code FROM lost_outside_graph ORDER BY step")
        return list(found.iter_rows())


def test_the_line_is_found_the_next_time_that_it_runs_and_no_mode_is_there_in_a_step(bench):
    recorded = record(bench)
    assert recorded.stdout.split() == [b"modes", b"0"] * 30
    assert lines(recorded) == [(13, "rare / rare.mean()")]
    with Trace(recorded.run) as trace:
        cause = diagnose(trace).causes[0]
    assert (cause.name, cause.step) == ("division-by-zero", 6)


def test_a_metric_that_divides_by_zero_does_not_hide_it(bench):
    found = lines(record(bench, also="accuracy(torch.zeros(3), torch.zeros(3))"))
    assert found == [(8, "right / asked"), (13, "rare / rare.mean()")]


@pytest.mark.longer
def test_within_a_mode_of_the_scripts_own_nothing_is_looked_at(bench):
    recorded = record(bench, around="torch.device('cpu')")
    assert recorded.stdout.split() == [b"modes", b"1"] * 30
    assert lines(recorded) == []


def test_infinities_that_are_wanted_are_not_lost_numbers(bench):
    found = lines(record(bench, also="torch.full((3,), -torch.inf).masked_fill(rare[:3] > 0, 0.0), torch.empty(9) / 1"))
    assert found == [(13, "rare / rare.mean()")]


def test_a_training_that_goes_on_after_a_lost_loss_is_not_looked_at(bench):
    assert lines(record(bench, also="accuracy(torch.zeros(3), torch.zeros(3))", skips=True)) == []
