"""Learning rates that a script sets by itself, without a scheduler."""

import math
from itertools import pairwise
from statistics import median
from typing import Any

from ...analyzer import Trace
from ..text.language import say
from ..text.wording import number
from .preflight_facts import Fact

_LEAST_RATES = 12
_SAME_FACTOR = 0.01
"""Relative difference of two falls that are meant to be the same. Arithmetic: a rate is kept to 16 digits."""
_NOTHING = 1e-3
"""Share of its first value at which a rate trains nothing to speak of: a convention of this project, as in `schedule`."""
_HALF = 0.5


def decays_by_hand(trace: Trace, total_steps: int | None) -> list[Fact]:
    """A rate that the script itself lowers by one factor at each step, and that is nothing long before the end of the run."""
    row: dict[str, Any] = trace.sql(
        "SELECT (SELECT sum(scheduler_steps) FROM steps) AS moves, list(lr ORDER BY step) AS rates FROM (SELECT step,"
        " any_value(lr) AS lr FROM param_groups WHERE rank = 0 AND optimizer_id = 0 AND group_id = 0 GROUP BY step)"
    ).row(0, named=True)
    rates = [rate for rate in row["rates"] or [] if rate]
    if row["moves"] or not total_steps or len(rates) < _LEAST_RATES or min(rates) <= 0:
        return []
    falls = [math.log(after / before) for before, after in pairwise(rates)]
    usual = median(falls)
    if usual >= 0 or any(abs(fall - usual) > _SAME_FACTOR * -usual for fall in falls):
        return []
    gone = math.ceil(math.log(_NOTHING) / usual)
    if gone >= _HALF * total_steps:
        return []
    words = say(
        "The script lowers the learning rate at each step, by the factor {factor}: after {gone} of {steps} steps it is a"
        " thousandth of what it was, and most of the run trains nothing. Is its length that of another run?",
        factor=number(math.exp(usual), 4),
        gone=number(gone),
        steps=number(total_steps),
    )
    return [("learning rate", "rate by hand", "doubtful", words)]
