"""The sign of a fault, in numbers that do not depend on any rule: the same look at the run and at every re-run."""

import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from ...analyzer import Trace

WINDOW = 8
"""Steps after the fault in which its sign is looked for."""

_HISTORY = 16

_BETTER = 0.05
"""Share of the first loss by which a loss must end lower where it counts as learnt better, or a fifth of itself."""

_LOWER = 0.8
"""Steps of the last third in which it must be lower: step by step, since both runs draw the same batches."""

_SAME = 0.01
"""Share of the first loss within which a loss ends where it did without the fix, or above."""

_GONE = 0.2
"""Share of a jump that may remain where it counts as gone."""

_RECENT = 5
"""Losses before the step from whose median a jump is measured: few, because a loss that falls is not where it was."""

_SCATTER = 6.0
"""Robust deviations of a loss's changes from step to step that make a jump, as far as a normal scatter never goes."""

_MOST_TIMES = 1e6
"""Where gradients are gone altogether."""

_FEWEST = 6
"""Steps that say how a run goes."""

_TIMES = 3.0
"""Multiples of the largest gradient norm in the history that make a jump of the gradients, and half of them where it is gone."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What is wrong with a run: ``kind`` nonfinite, crash, jump, gradient, dip, learning or one of NUMBERS, at
    ``step``.

    ``value`` says how much, ``losses`` are the run's own where a re-run is compared with them step by step."""

    kind: str
    step: int | None
    value: float | None
    losses: tuple[tuple[int, float], ...] = ()


def sign_of(trace: Trace, step: int | None, kind: str = "auto") -> Sign:
    """The sign of the fault in a run: a kind asked for, or the earliest of crash, nonfinite, jump, gradient and dip."""
    looks: dict[str, Callable[[], Sign | None]] = {
        "crash": lambda: _crash(trace),
        "nonfinite": lambda: _nonfinite(trace),
        "jump": lambda: _jump(trace, step),
        "gradient": lambda: _gradient(trace, step),
        "dip": lambda: _dip(trace, step),
    }
    if kind in looks:
        return looks[kind]() or Sign(kind, None, None)
    if kind in NUMBERS:
        return Sign(kind, step, NUMBERS[kind][0](trace) or None)
    found = [sign for look in looks.values() if kind == "auto" and (sign := look()) is not None]
    known = [sign for sign in found if sign.step is not None]
    if known:
        return min(known, key=lambda sign: sign.step or 0)
    return found[0] if found else Sign("learning", step, _learnt(trace), tuple(_losses(trace)))


def is_gone(before: Sign, trace: Trace, *, last: int, since: int = -1) -> tuple[bool | None, float | None]:
    """Whether a re-run is free of the sign after step ``since``, and how it looks there. None: it ended before the place."""
    reached = trace.sql("SELECT max(step) AS s FROM steps WHERE completed").item()
    if before.kind == "crash":
        beyond = reached is not None and before.step is not None and int(reached) >= before.step
        return beyond, None if reached is None else float(reached)
    if reached is None or (before.step is not None and reached < min(before.step, last)):
        return None, None
    if before.kind == "nonfinite":
        found = _nonfinite(trace, since)
        return found is None, None if found is None else found.value
    if before.kind == "jump":
        value = _height(trace, before.step, since)
        if value is None or before.value is None:
            return None, value
        return value <= _GONE * before.value, value
    if before.kind == "gradient":
        ratio = _times(trace, before.step, since)
        return (None, None) if ratio is None else (ratio <= _TIMES / 2, ratio)
    if before.kind == "dip":
        ratio = _fallen(trace, before.step, since)
        return (None, None) if ratio is None else (ratio <= _TIMES / 2, ratio)
    if before.kind in NUMBERS:
        look, gone, there = NUMBERS[before.kind]
        value = look(trace)
        if before.kind == "away" and value is not None and before.value is not None and value > before.value / there:
            return (
                None,
                value,
            )  # it runs away the other way now: there is more than one term, or none of them is to blame
        return _against(value, before.value, gone, there), value
    return _learns_better(before, trace), _learnt(trace)


def _against(value: float | None, before: float | None, gone: float, there: float) -> bool | None:
    """Whether a number is a good deal smaller than before; None in between, which proves nothing either way."""
    if value is None or before is None:
        return None
    return True if value <= gone * before else False if value >= there * before else None


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


def _losses(trace: Trace) -> list[tuple[int, float]]:
    frame = trace.sql("SELECT step, avg(loss) AS loss FROM steps WHERE isfinite(loss) GROUP BY step ORDER BY step")
    return [(int(s), float(v)) for s, v in frame.iter_rows()]


def _jump(trace: Trace, step: int | None) -> Sign | None:
    """The loss rises after the step by more than it scattered before: by how much, from its median before."""
    if step is None:
        return None
    height = _height(trace, step)
    history = [v for s, v in _losses(trace) if s < step][-_HISTORY:]
    if height is None or len(history) < 4:
        return None
    changes = [b - a for a, b in itertools.pairwise(history)]
    middle = statistics.median(changes)
    scatter = 1.4826 * statistics.median(abs(change - middle) for change in changes)
    return Sign("jump", step, height) if height > _SCATTER * max(scatter, 1e-3 * abs(history[-1])) else None


def _gradient(trace: Trace, step: int | None) -> Sign | None:
    """The gradients are several times as large as they have ever been."""
    ratio = _times(trace, step)
    return Sign("gradient", step, ratio) if ratio is not None and ratio > _TIMES else None


def _dip(trace: Trace, step: int | None) -> Sign | None:
    """The gradients of the step are a small part of what they have ever been: one batch teaches nothing."""
    ratio = _fallen(trace, step)
    return Sign("dip", step, ratio) if ratio is not None and ratio > _TIMES else None


def _fallen(trace: Trace, step: int | None, since: int = -1) -> float | None:
    norms = [(s, v) for s, v in _norms(trace) if s > since]
    history = [v for s, v in norms if step is not None and s < step][-_HISTORY:]
    there = [v for s, v in norms if step is not None and s == step]
    if len(history) < 4 or not there:
        return None
    return min(min(history) / max(there[0], 1e-12), _MOST_TIMES)


def _norms(trace: Trace) -> list[tuple[int, float]]:
    frame = trace.sql(
        "SELECT step, max(grad_norm) AS norm FROM steps WHERE isfinite(grad_norm) GROUP BY step ORDER BY step"
    )
    return [(int(s), float(v)) for s, v in frame.iter_rows()]


def _times(trace: Trace, step: int | None, since: int = -1) -> float | None:
    norms = [(s, v) for s, v in _norms(trace) if s > since]
    history = [v for s, v in norms if step is not None and s < step][-_HISTORY:]
    after = [v for s, v in norms if step is not None and step <= s < step + WINDOW]
    if len(history) < 4 or not after or max(history) <= 0:
        return None
    return max(after) / max(history)


def _height(trace: Trace, step: int | None, since: int = -1) -> float | None:
    losses = [(s, v) for s, v in _losses(trace) if s > since]
    history = [v for s, v in losses if step is not None and s < step][-_HISTORY:]
    after = [v for s, v in losses if step is not None and step <= s < step + WINDOW]
    if not history or not after:
        return None
    return max(after) - statistics.median(history[-_RECENT:])


def _learns_better(before: Sign, trace: Trace) -> bool | None:
    """Whether the loss of the last third is lower than that of the run, nearly step by step, and by how much it counts."""
    there, here = dict(before.losses), dict(_losses(trace))
    steps = sorted(there.keys() & here.keys())
    if len(steps) < _FEWEST:
        return None
    last = steps[-max(2, len(steps) // 3) :]
    first = abs(statistics.mean(there[s] for s in steps[: max(1, len(steps) // 6)]))
    gains = [there[s] - here[s] for s in last]
    gain, share = statistics.mean(gains) / max(first, 1e-12), sum(g > 0 for g in gains) / len(gains)
    ends = statistics.mean(there[s] for s in last)
    if share >= _LOWER and (gain > _BETTER or (ends > 0 and statistics.mean(gains) > 0.2 * ends)):
        return True
    return False if gain <= _SAME else None


def _size(trace: Trace) -> float | None:
    """Median of the gradients' norm in the last third."""
    norms = [norm for _, norm in _norms(trace)]
    return statistics.median(norms[-max(2, len(norms) // 3) :]) if len(norms) >= _FEWEST else None


def _still(trace: Trace, kind: str = "parameter") -> float | None:
    """Parameters that have the same values wherever they were looked at in the second half."""
    return trace.sql(
        "SELECT count(*) FILTER (still)::DOUBLE AS n FROM (SELECT min(s.sum_sq) = max(s.sum_sq) AND min(s.sum) = max(s.sum)"
        " AS still FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id"
        " WHERE t.kind = $kind AND 2 * s.step >= (SELECT max(step) FROM steps)"
        " GROUP BY s.rank, s.tensor_id HAVING count(DISTINCT s.step) > 1)",
        {"kind": kind},
    ).item()


def _still_buffers(trace: Trace) -> float | None:
    """The same of buffers, such as the running statistics of a batch norm."""
    return _still(trace, "buffer")


def _unchanged(trace: Trace) -> float | None:
    """Share of the weights' elements that a step of the last third leaves as they are."""
    return trace.sql(
        "SELECT sum(s.zero_count)::DOUBLE / nullif(sum(s.numel), 0) AS share FROM tensor_stats s"
        " JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id"
        " WHERE t.kind = 'update' AND 3 * s.step >= 2 * (SELECT max(step) FROM steps)"
    ).item()


def _zeros(trace: Trace) -> float | None:
    """Share of the gradients' elements that are exactly zero in the last third."""
    return trace.sql(
        "SELECT sum(s.zero_count)::DOUBLE / nullif(sum(s.numel), 0) AS share FROM tensor_stats s"
        " JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id"
        " WHERE t.kind = 'gradient' AND 3 * s.step >= 2 * (SELECT max(step) FROM steps)"
    ).item()


def _away(trace: Trace) -> float | None:
    """How far from zero the loss is at the end, over where it began: a loss that is minimised beyond every bound."""
    values = [v for _, v in _losses(trace)]
    part = max(1, len(values) // 6)
    if len(values) < _FEWEST:
        return None
    return abs(statistics.mean(values[-part:])) / max(abs(statistics.mean(values[:part])), 1e-12)


def _learnt(trace: Trace) -> float | None:
    """Share of the first losses that is gone at the end; negative where it rose."""
    values = [v for _, v in _losses(trace)]
    if len(values) < _FEWEST:
        return None
    part = max(1, len(values) // 6)
    first, last = statistics.mean(values[:part]), statistics.mean(values[-part:])
    return (first - last) / max(abs(first), 1e-12) if math.isfinite(last) else None


NUMBERS: dict[str, tuple[Callable[[Trace], float | None], float, float]] = {
    "size": (_size, 0.5, 0.8),
    "away": (_away, 0.5, 0.9),
    "still": (_still, 0.5, 1.0),
    "buffers": (_still_buffers, 0.999, 1.0),
    "unchanged": (_unchanged, 0.5, 0.9),
    "zeros": (_zeros, 0.5, 0.9),
}
"""Kind of a sign that is one number of the whole training → the number, the share of it from which on the sign is gone, and
the share from which on it is still there."""
