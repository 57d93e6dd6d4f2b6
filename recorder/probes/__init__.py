"""Probes: what one batch and copies of the model show before a long training, each a function of its own.

Over ``session`` and below, beside the watches; nothing of it runs in a training that is only recorded. ``bench`` is for a
model and a batch at hand, ``script_loop`` drives the same probes by the loop of an unmodified script.
"""

import os
from collections.abc import Callable
from pathlib import Path

from ...schemas.files.probe_report import ENV_PLAN, ProbeResult, read_plan
from . import interventions
from .bench import (
    Bench,
    can_learn,
    check_all,
    future_hidden,
    gradients_right,
    input_counts,
    lr_range,
    repeatable,
    samples_alone,
    target_counts,
)
from .gradients import custom_function
from .schedules import simulate
from .script_loop import ScriptLoop
from .tokenizers import consistent, round_trip

__all__ = [
    "Bench",
    "ProbeResult",
    "begin",
    "can_learn",
    "check_all",
    "consistent",
    "custom_function",
    "future_hidden",
    "gradients_right",
    "input_counts",
    "interventions",
    "lr_range",
    "repeatable",
    "round_trip",
    "samples_alone",
    "simulate",
    "target_counts",
]


def begin(plan: Path, now: Callable[[], int]) -> None:
    """Do what a plan asks of this process, which has just imported torch; ``now`` tells the step that is recorded."""
    asked = read_plan(plan)
    if asked.intervention:  # of each rank that a launcher starts, too
        interventions.begin(asked.intervention, asked.step, {**asked.values, "folder": asked.folder}, now)
    else:
        os.environ.pop(ENV_PLAN, None)  # processes that the script starts are not ours
        ScriptLoop(asked).install()
