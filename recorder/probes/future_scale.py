"""Whether each sample was scaled by what is to be foretold: by the extremes, or the mean, of its past and its future together."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .trial import Probe, Setting, Trial, result, untried

_NAME = "targets-in-scale"
_FEWEST = 8
"""Samples, and values of each, whose extremes are equal by no chance."""
_MOST_DIMENSIONS = 3
_SAME = 1e-4
"""Distance of extremes, in their range. Arithmetic: a division in float32 and one more in the script."""
_OUTSIDE = 0.1
"""Share of the samples whose extremes lie in the targets alone. Convention of this probe."""


def scaled_by_the_future(_: Setting) -> Probe:
    """Compare the largest value, and mean and spread, of inputs, of targets, and of both: only those of both are all the same."""
    seen = yield Trial()
    tried = False
    for past in seen.inputs:
        for future in seen.targets:
            pair = _series(past, future)
            if pair is None:
                continue
            tried = True
            for code, one, other, both in (
                (code, *(scale(rows) for rows in (*pair, torch.cat(pair, 1)))) for code, scale in _SCALES
            ):
                alike, apart = _all_alike(both), ~_is_like(one, both)
                if alike and float(apart.float().mean()) >= _OUTSIDE and not _all_alike(one) and not _all_alike(other):
                    facts: dict[str, Any] = {"samples": len(both), "outside": int(apart.sum())}
                    return result(_NAME, "doubtful", code, **facts)
    return result(_NAME, "passed", "scaled-by-the-past") if tried else untried(_NAME, "no-series")


def _series(past: Tensor, future: Tensor) -> tuple[Tensor, Tensor] | None:
    """Values of each sample, past and future, of one signal; None where these are others."""
    if not past.is_floating_point() or not future.is_floating_point():
        return None
    if not 2 <= past.dim() <= _MOST_DIMENSIONS or not 2 <= future.dim() <= _MOST_DIMENSIONS:
        return None
    if past.shape[0] != future.shape[0] or past.shape[0] < _FEWEST:
        return None
    if any(t.dim() == _MOST_DIMENSIONS and min(t.shape[1:]) > 1 for t in (past, future)):
        return None
    rows = past.detach().double().flatten(1).cpu(), future.detach().double().flatten(1).cpu()
    if rows[0].shape[1] < _FEWEST or len(rows[1].unique()) < _FEWEST or not all(bool(r.isfinite().all()) for r in rows):
        return None
    return rows


_SCALES: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    ("scaled-by-the-future-extremes", lambda rows: rows.amax(1, keepdim=True)),
    ("scaled-by-the-future-extremes", lambda rows: rows.abs().amax(1, keepdim=True)),
    ("scaled-by-the-future-mean", lambda rows: torch.stack((rows.mean(1), rows.std(1, unbiased=False)), 1)),
)
"""What a sample may be scaled by: its largest value, its largest distance from zero, its mean and spread."""


def _all_alike(values: Tensor) -> bool:
    """Whether all samples have the same numbers."""
    return bool(_is_like(values, values[:1]).all())


def _is_like(values: Tensor, others: Tensor) -> Tensor:
    room = _SAME * (others.abs().max() + 1e-12)
    return ((values - others).abs() <= room).all(1)


ALL = {_NAME: scaled_by_the_future}
