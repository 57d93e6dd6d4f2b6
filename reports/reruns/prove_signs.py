"""The sign of a fault, in numbers that do not depend on any rule: the same look at the run and at every re-run."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from ...analyzer import Trace
from .prove_numbers import NUMBERS, compared, learnt, number_of
from .run_series import (
    FEWEST,
    Series,
    activations,
    before,
    gradient_norms,
    losses,
    scatter,
    update_norms,
    usual,
)

WINDOW = 8
"""Steps after the fault in which its sign is looked for."""

_BETTER = 0.05
"""Share of the first loss by which a loss must end lower where it counts as learnt better, or a fifth of itself."""

_LOWER = 0.8
"""Steps of the last third in which it must be lower: step by step, since both runs draw the same batches."""

_SAME = 0.01
"""Share of the first loss within which a loss ends where it did without the fix, or above."""

_GONE = 0.2
"""Share of a jump that may remain where it counts as gone."""

_SCATTER = 6.0
"""Robust deviations of a series's changes from step to step that make a jump, as far as a normal scatter never goes."""

_SCATTER_OF_MANY = 12.0
"""The same where the furthest of many series is taken."""

_WITHIN = 3.0
"""Robust deviations within which a series is where it usually is."""

_FEWEST_BEFORE = 4
"""Steps before a step by which a jump can be told."""

_MOST_TIMES = 1e6
"""Where gradients are gone altogether."""

_TIMES = 3.0
"""Multiples of the largest gradient norm in the history that make a jump of the gradients, and half of them where it is gone."""

DEFINED = frozenset({"sums"})
"""Signs that are what the rule looks at: that they go shows the fix to mend what was found, not that it had done harm."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What is wrong with a run: ``kind`` nonfinite, crash, jump, gradient, dip, update, activation, learning or one of
    NUMBERS, at ``step``.

    ``value`` says how much, ``losses`` are the run's own where a re-run is compared with them step by step. ``series`` is the
    one of several that shows it, ``optimizer`` the one whose loss it is."""

    kind: str
    step: int | None
    value: float | None
    losses: tuple[tuple[int, float], ...] = ()
    series: str = ""
    optimizer: int | None = None

    @property
    def shows(self) -> bool:
        """Whether there is anything that could go away."""
        return self.value is not None or self.kind in {"crash", "learning"}


def sign_of(trace: Trace, step: int | None, kind: str = "auto", optimizer: int | None = None) -> Sign:
    """The sign of the fault in a run: a kind asked for, or the earliest of crash, nonfinite, jump, gradient and dip.

    Where the fault is one of an ``optimizer``, it is its loss that learns better or does not."""
    looks: dict[str, Callable[[], Sign | None]] = {
        "crash": lambda: _crash(trace),
        "nonfinite": lambda: _nonfinite(trace),
        "jump": lambda: _jump("jump", losses(trace), step),
        "gradient": lambda: _ratio("gradient", step, _times(trace, step)),
        "dip": lambda: _ratio("dip", step, _fallen(trace, step)),
    }
    by_request: dict[str, Callable[[], Sign | None]] = {
        "update": lambda: _jump("update", update_norms(trace), step),
        "activation": lambda: _activation(trace, step),
    }
    asked = (looks | by_request).get(kind)
    if asked is not None:
        return asked() or Sign(kind, None, None)
    if kind in NUMBERS:
        return Sign(kind, step, number_of(kind, trace, step) or None)
    found = [sign for look in looks.values() if kind == "auto" and (sign := look()) is not None]
    known = [sign for sign in found if sign.step is not None]
    if known:
        return min(known, key=lambda sign: sign.step or 0)
    if found:
        return found[0]
    own = losses(trace, optimizer)
    return Sign("learning", step, learnt(own), tuple(own), optimizer=optimizer)


def is_gone(sign: Sign, trace: Trace, *, last: int, since: int = -1) -> tuple[bool | None, float | None]:
    """Whether a re-run is free of the sign after step ``since``, and how it looks there. None: it ended before the place."""
    reached = trace.sql("SELECT max(step) AS s FROM steps WHERE completed").item()
    if sign.kind == "crash":
        beyond = reached is not None and sign.step is not None and int(reached) >= sign.step
        return beyond, None if reached is None else float(reached)
    if reached is None or (sign.step is not None and reached < min(sign.step, last)):
        return None, None
    if sign.kind == "nonfinite":
        found = _nonfinite(trace, since)
        return found is None, None if found is None else found.value
    if sign.kind in {"jump", "update"}:
        value = _height(losses(trace) if sign.kind == "jump" else update_norms(trace), sign.step, since)
        return (None if value is None or sign.value is None else value <= _GONE * sign.value), value
    if sign.kind in {"gradient", "dip"}:
        look = _times if sign.kind == "gradient" else _fallen
        ratio = look(trace, sign.step, since)
        return (None, None) if ratio is None else (ratio <= _TIMES / 2, ratio)
    if sign.kind == "activation":
        value = _deviations(trace, sign.step, since).get(sign.series)
        return _nearer(value, sign.value), value
    if sign.kind in NUMBERS:
        value = number_of(sign.kind, trace, sign.step)
        return compared(sign.kind, value, sign.value), value
    own = losses(trace, sign.optimizer)
    return _learns_better(sign, own), learnt(own)


def _crash(trace: Trace) -> Sign | None:
    if trace.status in {"completed", "running"}:
        return None
    if trace.status == "exception" and trace.exit is not None and trace.exit.exception is not None:
        return Sign("crash", trace.exit.exception.step, None)
    reached = trace.sql("SELECT max(step) AS s FROM steps WHERE completed").item()
    return Sign("crash", None if reached is None else int(reached) + 1, None)


def _nonfinite(trace: Trace, since: int = -1) -> Sign | None:
    row = trace.sql(
        "SELECT min(step) AS first, count(DISTINCT step) AS n FROM ("
        " SELECT step FROM steps WHERE NOT isfinite(loss) OR NOT isfinite(grad_norm)"
        " UNION ALL SELECT s.step FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id"
        " WHERE s.nan_count > 0 AND t.kind IN ('gradient', 'parameter', 'activation')"
        " UNION ALL SELECT s.step FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id"
        " WHERE s.inf_count > 0 AND t.kind IN ('gradient', 'parameter')) WHERE step > $since",
        {"since": since},
    ).row(0)
    return None if row[0] is None else Sign("nonfinite", int(row[0]), float(row[1]))


def _jump(kind: str, series: Series, step: int | None) -> Sign | None:
    """A series rises after the step by more than it scattered before: by how much, from its median before."""
    if step is None:
        return None
    height = _height(series, step)
    history = before(series, step)
    if height is None or len(history) < _FEWEST_BEFORE:
        return None
    return Sign(kind, step, height) if height > _SCATTER * scatter(history) else None


def _height(series: Series, step: int | None, since: int = -1) -> float | None:
    if step is None:
        return None
    history = before([(s, v) for s, v in series if s > since], step)
    after = [v for s, v in series if step <= s < step + WINDOW]
    return max(after) - usual(history) if history and after else None


def _ratio(kind: str, step: int | None, ratio: float | None) -> Sign | None:
    return Sign(kind, step, ratio) if ratio is not None and ratio > _TIMES else None


def _times(trace: Trace, step: int | None, since: int = -1) -> float | None:
    """The largest gradients after the step, over the largest before: several times as large as they have ever been."""
    norms = [(s, v) for s, v in gradient_norms(trace) if s > since]
    if step is None:
        return None
    history = before(norms, step)
    after = [v for s, v in norms if step <= s < step + WINDOW]
    if len(history) < _FEWEST_BEFORE or not after or max(history) <= 0:
        return None
    return max(after) / max(history)


def _fallen(trace: Trace, step: int | None, since: int = -1) -> float | None:
    """The smallest gradients before the step, over those of the step: one batch teaches nothing."""
    norms = [(s, v) for s, v in gradient_norms(trace) if s > since]
    there = [v for s, v in norms if s == step]
    if step is None or not there:
        return None
    history = before(norms, step)
    return min(min(history) / max(there[0], 1e-12), _MOST_TIMES) if len(history) >= _FEWEST_BEFORE else None


def _activation(trace: Trace, step: int | None) -> Sign | None:
    """What enters or leaves a module is further from where it was than any scatter goes: the furthest of them."""
    found = _deviations(trace, step)
    if not found:
        return None
    name = max(found, key=found.__getitem__)
    return Sign("activation", step, found[name], series=name) if found[name] > _SCATTER_OF_MANY else None


def _deviations(trace: Trace, step: int | None, since: int = -1) -> dict[str, float]:
    """Robust deviations of each activation in the step from where it was."""
    found: dict[str, float] = {}
    for name, series in activations(trace, step).items() if step is not None else ():
        history = before([(s, v) for s, v in series if s > since], step or 0)
        there = [v for s, v in series if s == step]
        if there and len(history) >= FEWEST:
            found[name] = abs(there[0] - usual(history)) / max(scatter(history), 1e-12)
    return found


def _nearer(value: float | None, before_it: float | None) -> bool | None:
    if value is None or before_it is None:
        return None
    return True if value <= max(_WITHIN, _GONE * before_it) else False if value >= before_it / 2 else None


def _learns_better(sign: Sign, own: Series) -> bool | None:
    """Whether the loss of the last third is lower than that of the run, nearly step by step, and by how much it counts."""
    there, here = dict(sign.losses), dict(own)
    steps = sorted(there.keys() & here.keys())
    if len(steps) < FEWEST:
        return None
    last = steps[-max(2, len(steps) // 3) :]
    first = abs(statistics.mean(there[s] for s in steps[: max(1, len(steps) // 6)]))
    gains = [there[s] - here[s] for s in last]
    gain, share = statistics.mean(gains) / max(first, 1e-12), sum(g > 0 for g in gains) / len(gains)
    ends = statistics.mean(there[s] for s in last)
    if share >= _LOWER and (gain > _BETTER or (ends > 0 and statistics.mean(gains) > 0.2 * ends)):
        return True
    return False if gain <= _SAME else None
