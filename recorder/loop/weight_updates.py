"""How far an optimizer's step moved the weights: from a sample of the elements of each, before and after."""

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ...schemas import Phase
from ..script.wrappers import local
from ..session.registry import ParameterEntry
from ..session.session import Session
from ..tensors.device import Late, join_when_ready
from ..tensors.element_sample import Sampling
from ..tensors.moment_table import MomentTable
from ..tensors.moments import LATE_DEVICES, Moments, count_nonzero, measurable

Parameters = list[tuple[Tensor, ParameterEntry, int]]
"""With their entries and groups."""


class Sampled(NamedTuple):
    """Elements of an optimizer's parameters before its step."""

    parameters: Parameters
    sampling: Sampling
    before: Tensor


class Change(NamedTuple):
    """How far a step moved the weights of a group, and how large they are: L2 norms, estimated from a sample of each weight."""

    update: "float | Late | None"
    weight: "float | Late | None"


def changes(session: Session, sampled: Sampled, ids: Sequence[int], weights: Sequence[Moments]) -> dict[int, Change]:
    """Make a row for each update; returns what has changed by group.

    ``ids`` and ``weights``: parameters measured in this step, with their moments; of others the sample is measured.
    """
    parameters, sampling, before = sampled
    after = sampling.take([p for p, _, _ in parameters])
    if after.numel() != before.numel():
        return {}
    difference = after - before
    updates = sampling.measure(difference)
    if not isinstance(updates, MomentTable):  # which has counted zeros
        unmoved = _zeros(difference, sampling, updates)
        updates = [
            u if zeros is None else u._replace(zero_count=zeros) for u, zeros in zip(updates, unmoved, strict=True)
        ]
    session.rows.add_all_tensor_stats(
        [entry.update_id for _, entry, _ in parameters], Phase.OPTIMIZER, updates, [None] * len(parameters)
    )
    sampled_ids = [entry.parameter_id for _, entry, _ in parameters]
    known = weights
    if sampled_ids != ids:
        by_id = dict(zip(ids, weights, strict=True))
        whole = all(map(by_id.__contains__, sampled_ids))
        known = [by_id[i] for i in sampled_ids] if whole else sampling.measure(after)
    numels = [parameter.numel() for parameter, _, _ in parameters]
    groups = [group for _, _, group in parameters]
    moved, sizes = _norms(groups, numels, updates), _norms(groups, numels, known)
    return {group: Change(moved[group], sizes[group]) for group in moved}


def _norms(
    groups: Sequence[int], numels: Sequence[int], measured: Sequence[Moments]
) -> "dict[int, float | Late | None]":
    """L2 norm of the tensors of each group, estimated from a sample of each."""
    if isinstance(measured, MomentTable):
        looked_at, nan, infinite, *_, squares = measured.columns()
        sums = dict.fromkeys(groups, 0.0)
        for group, n, k, square, lost in zip(
            groups, numels, looked_at, squares, map(int.__add__, nan, infinite), strict=True
        ):
            sums[group] += math.nan if lost else square * n / max(k, 1)
        return {group: math.sqrt(total) for group, total in sums.items()}
    of: dict[int, list[tuple[int, Moments]]] = {}
    for group, n, m in zip(groups, numels, measured, strict=True):
        of.setdefault(group, []).append((n, m))
    return {
        group: join_when_ready([m for _, m in members], partial(_norm_of_samples, [n for n, _ in members]))
        for group, members in of.items()
    }


def _norm_of_samples(numels: Sequence[int], measured: Sequence[Moments]) -> float | None:
    """L2 norm of tensors of these sizes, estimated from a sample of each; None without any."""
    if not measured:
        return None
    if any(m.nonfinite for m in measured):
        return math.nan
    return sum((m.sum_sq or 0.0) * n / max(m.numel, 1) for n, m in zip(numels, measured, strict=True)) ** 0.5


def _zeros(difference: Tensor, sampling: Sampling, updates: Sequence[Moments]) -> Sequence[int | None]:
    """Elements that are exactly zero in each part of a sample; one look at the whole suffices where every weight has moved.
    None where the moments of the updates count them."""
    count = len(sampling.sizes)
    if difference.device.type in LATE_DEVICES or all(m.zero_count is not None for m in updates):
        return [None] * count
    if count_nonzero(difference) == difference.numel():
        return [0] * count
    ends = torch.tensor([0, *itertools.accumulate(sampling.sizes)])
    before = torch.nn.functional.pad((difference == 0).cumsum(0), (1, 0))[ends]
    return sampling.sorted_back((before[1:] - before[:-1]).tolist())


def sample_of(parameters: Parameters) -> Sampled | None:
    """Those of the parameters of which elements can be compared, as they are now; None without any, or on several devices."""
    usable = [
        (p, e, g)
        for p, e, g in ((local(p), e, g) for p, e, g in parameters)
        if measurable(p) and p.layout is torch.strided and p.is_floating_point() and p.numel()
    ]
    if not usable or len({p.device for p, _, _ in usable}) != 1:
        return None
    tensors = [p for p, _, _ in usable]
    sampling = Sampling(tensors)
    return Sampled(usable, sampling, sampling.take(tensors))
