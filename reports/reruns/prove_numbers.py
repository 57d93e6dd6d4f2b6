"""Signs of faults that are one number of a whole training: the run's own is compared with that of each re-run."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from ...analyzer import Trace
from .run_series import FEWEST, Series, gradient_norms, losses

_HALF_BITS = 11
"""Binary digits of a float16 number; bfloat16 has eight."""

_MOST_LOOKS = 20_000

_LOST = 0.01
"""Difference between the sum of a reduction and that of its parts, over the sum of magnitudes: rounding of half precision
stays below it."""


@dataclass(frozen=True, slots=True)
class Number:
    """``look`` takes a trace and the step from which on the fault is there. With a share ``gone`` of what it was the sign is
    gone, with ``there`` it is still there; nothing is known in between."""

    look: Callable[[Trace, int], float | None]
    gone: float
    there: float


def number_of(kind: str, trace: Trace, step: int | None) -> float | None:
    """The number of a run; None where it has none."""
    return NUMBERS[kind].look(trace, step or 0)


def compared(kind: str, value: float | None, before: float | None) -> bool | None:
    """Whether a number is a good deal smaller than before; None in between, which proves nothing either way."""
    if value is None or before is None:
        return None
    number = NUMBERS[kind]
    if kind == "away" and value > before / number.there:
        return None  # it runs away the other way now: there is more than one term, or none of them is to blame
    return True if value <= number.gone * before else False if value >= number.there * before else None


def learnt(series: Series) -> float | None:
    """Share of the first losses that is gone at the end; negative where it rose."""
    values = [v for _, v in series]
    if len(values) < FEWEST:
        return None
    part = max(1, len(values) // 6)
    first, last = statistics.mean(values[:part]), statistics.mean(values[-part:])
    return (first - last) / max(abs(first), 1e-12) if math.isfinite(last) else None


def _size(trace: Trace, _: int) -> float | None:
    """Median of the gradients' norm in the last third."""
    norms = [norm for _, norm in gradient_norms(trace)]
    return statistics.median(norms[-max(2, len(norms) // 3) :]) if len(norms) >= FEWEST else None


def _still(trace: Trace, _: int) -> float | None:
    """Parameters that have the same values wherever they were looked at in the second half."""
    return trace.sql(
        "SELECT count(*) FILTER (still)::DOUBLE AS n FROM (SELECT min(s.sum_sq) = max(s.sum_sq) AND min(s.sum) = max(s.sum)"
        " AS still FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id"
        " WHERE t.kind = 'parameter' AND 2 * s.step >= (SELECT max(step) FROM steps)"
        " GROUP BY s.rank, s.tensor_id HAVING count(DISTINCT s.step) > 1)"
    ).item()


def _still_statistics(trace: Trace, step: int) -> float | None:
    """Share of the looks at running statistics, from the step on, at which they are what they were at the look before."""
    return trace.sql(
        "SELECT avg((sum = sum_before AND sum_sq = sq_before)::INTEGER) AS share FROM (SELECT s.sum, s.sum_sq,"
        " lag(s.sum) OVER looks AS sum_before, lag(s.sum_sq) OVER looks AS sq_before"
        " FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id"
        " WHERE t.kind = 'buffer' AND s.step >= $step"
        " AND regexp_matches(t.tensor_name, '(running_mean|running_var|num_batches_tracked)$')"
        " WINDOW looks AS (PARTITION BY s.rank, s.tensor_id ORDER BY s.step, s.seq)) WHERE sum_before IS NOT NULL",
        {"step": step},
    ).item()


def _undrawn(trace: Trace, step: int) -> float | None:
    """Share of the steps, from the step on, in which no random number was drawn: dropout draws in each."""
    return trace.sql(
        "SELECT avg((rng = before)::INTEGER) AS share FROM (SELECT step, rng, lag(rng) OVER (PARTITION BY rank ORDER BY step)"
        " AS before FROM (SELECT rank, step, max(rng) AS rng FROM steps WHERE rng IS NOT NULL GROUP BY rank, step))"
        " WHERE step >= $step AND before IS NOT NULL",
        {"step": step},
    ).item()


def _skipped(trace: Trace, step: int) -> float | None:
    """Share of the steps, from the step on, that a GradScaler keeps the optimizer from making."""
    return trace.sql(
        "SELECT avg(coalesce(skipped_by_scaler, false)::INTEGER) AS share FROM steps WHERE step >= $step AND completed",
        {"step": step},
    ).item()


def _unchanged(trace: Trace, _: int) -> float | None:
    """Share of the weights' elements that a step of the last third leaves as they are."""
    return _zero_share(trace, "update")


def _zeros(trace: Trace, _: int) -> float | None:
    """Share of the gradients' elements that are exactly zero in the last third."""
    return _zero_share(trace, "gradient")


def _zero_share(trace: Trace, kind: str) -> float | None:
    return trace.sql(
        "SELECT sum(s.zero_count)::DOUBLE / nullif(sum(s.numel), 0) AS share FROM tensor_stats s"
        " JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id"
        " WHERE t.kind = $kind AND 3 * s.step >= 2 * (SELECT max(step) FROM steps)",
        {"kind": kind},
    ).item()


def _away(trace: Trace, _: int) -> float | None:
    """How far from zero the loss is at the end, over where it began: a loss that is minimised beyond every bound."""
    values = [v for _, v in losses(trace)]
    part = max(1, len(values) // 6)
    if len(values) < FEWEST:
        return None
    return abs(statistics.mean(values[-part:])) / max(abs(statistics.mean(values[:part])), 1e-12)


def _fine(trace: Trace, step: int) -> float | None:
    """Share of the modules' outputs, from the step on, whose numbers have more digits than half precision holds."""
    frame = trace.sql(
        "SELECT s.min, s.max FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id"
        " WHERE t.kind = 'activation' AND t.tensor_name LIKE '%:output%' AND s.step >= $step AND s.min < s.max"
        " ORDER BY s.step, s.seq LIMIT $most",
        {"step": step, "most": _MOST_LOOKS},
    )
    looks = [_is_fine(low) or _is_fine(high) for low, high in frame.iter_rows()]
    return sum(looks) / len(looks) if looks else None


def _is_fine(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and not (math.frexp(value)[0] * 2**_HALF_BITS).is_integer()


def _sums(trace: Trace, step: int) -> float | None:
    """Sums of all ranks, from the step on, that are not the sum of what the ranks gave."""
    return trace.sql(
        'WITH calls AS (SELECT "group", number, any_value(reduce_op) AS how, count(*) AS ranks, sum(sum_before) AS given,'
        " sum(size_before) AS size, arg_max(sum_after, abs(sum_after)) AS got FROM collectives"
        " WHERE op = 'all_reduce' AND sum_after IS NOT NULL AND step >= $step GROUP BY ALL)"
        " SELECT count(*) FILTER (abs(got * CASE WHEN how = 'avg' THEN ranks ELSE 1 END - given) > $lost * size)::DOUBLE AS n"
        " FROM calls WHERE ranks > 1 HAVING count(*) > 0",
        {"step": step, "lost": _LOST},
    ).item()


NUMBERS: dict[str, Number] = {
    "size": Number(_size, 0.5, 0.8),
    "away": Number(_away, 0.5, 0.9),
    "still": Number(_still, 0.5, 1.0),
    "buffers": Number(_still_statistics, 0.5, 0.9),
    "undrawn": Number(_undrawn, 0.5, 0.9),
    "skipped": Number(_skipped, 0.5, 0.9),
    "unchanged": Number(_unchanged, 0.5, 0.9),
    "zeros": Number(_zeros, 0.5, 0.9),
    "fine": Number(_fine, 0.8, 0.99),
    "sums": Number(_sums, 0.1, 0.9),
}
"""Kinds of signs that are one number of the whole training."""
