"""What a script keeps in its own objects, and whether it goes on after its checkpoint was loaded."""

from collections import deque

import numpy as np
import pytest
import torch
from firstfault.recorder.probes.script_state import script_state
from firstfault.reports.reruns.preflight_resume import state_kept
from firstfault.schemas.files.rehearsed import StateValue, write_state
from torch import nn


class Statistics:
    def __init__(self):
        self.mean, self.var, self.count = torch.zeros(3), np.ones(3), 0.0
        self.shown = "text"


class Timer:
    def __init__(self):
        self.began = 12.0


class Stopper:
    def __init__(self):
        self.best_score, self.patience, self.log = 0.5, 3, deque()


def test_tensors_counters_and_the_best_so_far_are_state_and_batches_and_timers_are_not():
    statistics, timer, _stopper, model = Statistics(), Timer(), Stopper(), nn.Linear(2, 2)
    batch, best_loss, total = torch.rand(4, 3), float("inf"), 1.0
    found = script_state()
    assert timer.began
    assert isinstance(model, nn.Module)
    assert len(batch) == 4 * total
    assert (found["statistics.mean"].mean, found["statistics.mean"].size) == (0.0, 3)
    assert {"statistics.var", "statistics.count", "_stopper.best_score", "_stopper.patience", "best_loss"} <= set(found)
    assert not {n for n in found if n.startswith(("batch", "timer", "model", "total", "statistics.shown"))}
    before = found["statistics.mean"].digest
    statistics.mean = statistics.mean + 1
    assert script_state()["statistics.mean"].digest != before
    assert best_loss == float(found["best_loss"].digest)


def value(number):
    return StateValue(digest=repr(number), mean=number, size=8)


@pytest.mark.parametrize(
    ("first", "then", "now", "told"),
    [
        (0.0, 398.0, 0.0, True),
        (0.0, 398.0, 398.0, False),  # it goes on
        (0.0, 0.0, 0.0, False),  # it had not changed
        (0.0, 398.0, 7.0, False),  # it was made anew from other data
    ],
)
def test_state_that_is_again_what_it_was_at_the_beginning_is_doubted(tmp_path, first, then, now, told):
    for moment, number in (("first", first), ("then", then), ("now", now)):
        write_state(tmp_path, moment, {"rms.mean": value(number), f"only.{moment}": value(number)})
    found = state_kept(tmp_path)
    assert [f[:3] for f in found] == ([("resume", "state not restored", "doubtful")] if told else [])
    if told:
        assert "rms.mean begins anew: it is 0 in the mean of 8 elements after loading, and was 398 in" in found[0][3]


def test_a_best_value_that_begins_anew_at_infinity_is_told(tmp_path):
    for moment, best_loss in (("first", float("inf")), ("then", 0.25), ("now", float("inf"))):
        write_state(tmp_path, moment, script_state())
        assert best_loss > 0
    ((_, _, _, words),) = state_kept(tmp_path)
    assert words.startswith("best_loss begins anew: it is not finite after loading, and was 0.25 where")


@pytest.mark.parametrize("nothing", [None, 0.0])
def test_a_highest_value_that_begins_anew_is_told(tmp_path, nothing):
    for moment, max_accuracy in (("first", nothing), ("then", 71.5), ("now", nothing)):
        write_state(tmp_path, moment, script_state())
        assert max_accuracy is nothing or max_accuracy > 0
    ((_, _, _, words),) = state_kept(tmp_path)
    assert words.startswith(
        f"max_accuracy begins anew: it is {'None' if nothing is None else 0} after loading, and was 71.5"
    )


def test_a_rehearsal_that_wrote_no_state_says_nothing(tmp_path):
    assert state_kept(tmp_path) == []
