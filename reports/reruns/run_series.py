"""What a run's losses, gradients, updates and activations were, step by step: what signs of faults are read from."""

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from ...analyzer import Trace

HISTORY = 16
"""Steps before a step that say what is usual there."""

FEWEST = 6
"""Steps that say how a run goes."""

_RECENT = 5
"""Values before the step from whose median a jump is measured: few, because a loss that falls is not where it was."""

Series = Sequence[tuple[int, float]]
"""Step and value, in the order of the steps."""


def losses(trace: Trace, optimizer: int | None = None) -> Series:
    """The mean loss of each step, of one optimizer where several train against each other."""
    return _rows(
        trace,
        "SELECT step, avg(loss) AS v FROM steps WHERE isfinite(loss) AND coalesce(optimizer_id = $optimizer, true)"
        " GROUP BY step ORDER BY step",
        {"optimizer": optimizer},
    )


def gradient_norms(trace: Trace) -> Series:
    """The largest norm of the gradients that an optimizer used in each step."""
    return _rows(
        trace,
        "SELECT step, max(grad_norm) AS v FROM steps WHERE isfinite(grad_norm) GROUP BY step ORDER BY step",
    )


def update_norms(trace: Trace) -> Series:
    """The norm of what each step changed in the weights, of the elements that were looked at."""
    return _rows(
        trace,
        "SELECT s.step, sqrt(sum(s.sum_sq)) AS v FROM tensor_stats s"
        " JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id WHERE t.kind = 'update' AND s.rank = 0"
        " GROUP BY s.step ORDER BY s.step",
    )


def activations(trace: Trace, step: int) -> dict[str, Series]:
    """Largest magnitude and root mean square of what enters and leaves each module, in a step and the steps before it."""
    frame = trace.sql(
        "SELECT t.tensor_name AS name, s.step, max(greatest(abs(s.min), abs(s.max))) AS largest,"
        " max(sqrt(s.sum_sq / s.numel)) AS size"
        " FROM tensor_stats s JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id"
        " WHERE t.kind = 'activation' AND s.rank = 0 AND s.numel > 0 AND s.step BETWEEN $step - $history AND $step"
        " GROUP BY ALL ORDER BY name, s.step",
        {"step": step, "history": HISTORY},
    )
    found: dict[str, list[tuple[int, float]]] = {}
    for name, at, largest, size in frame.iter_rows():
        for what, value in (("largest", largest), ("size", size)):
            if value is not None:
                found.setdefault(f"{name} {what}", []).append((int(at), float(value)))
    return dict(found)


def before(series: Series, step: int) -> list[float]:
    """The values of the steps that say what is usual at a step."""
    return [v for s, v in series if s < step][-HISTORY:]


def usual(history: Sequence[float]) -> float:
    """Where a series is just before a step."""
    return statistics.median(history[-_RECENT:])


def scatter(history: Sequence[float]) -> float:
    """Robust deviation of the changes from step to step; a thousandth of the last value at least."""
    changes = [b - a for a, b in itertools.pairwise(history)]
    middle = statistics.median(changes)
    return max(1.4826 * statistics.median(abs(change - middle) for change in changes), 1e-3 * abs(history[-1]))


def _rows(trace: Trace, query: str, values: dict[str, Any] | None = None) -> Series:
    return [(int(step), float(value)) for step, value in trace.sql(query, values).iter_rows() if value is not None]
