"""How far an optimizer's step moved the weights: from a sample of the elements of each, before and after."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...schemas import Phase
from ..script.wrappers import local
from ..session.registry import ParameterEntry
from ..session.session import Session
from ..tensors.element_sample import Sampling
from ..tensors.moments import LATE_DEVICES, Moments, count_nonzero, measurable

Parameters = list[tuple[Tensor, ParameterEntry, int]]
"""With their entries and groups."""


class Sampled(NamedTuple):
    """Elements of an optimizer's parameters before its step."""

    parameters: Parameters
    sampling: Sampling
    before: Tensor


def changes(session: Session, sampled: Sampled, weights: dict[int, Moments]) -> dict[int, list[Any]]:
    """Make a row for each update; returns group → (numel, moments of the update, moments of the weight) of its parameters.

    ``weights``: moments of parameters measured in this step, by parameter_id; of others the sample is measured.
    """
    change: dict[int, list[Any]] = {}
    parameters, sampling, before = sampled
    after = sampling.take([p for p, _, _ in parameters])
    if after.numel() != before.numel():
        return change
    difference = after - before
    updates = sampling.measure(difference)
    unmoved = _zeros(difference, sampling, updates)
    known = [weights.get(entry.parameter_id) for _, entry, _ in parameters]
    if None in known:
        known = sampling.measure(after)
    counted = [u if zeros is None else u._replace(zero_count=zeros) for u, zeros in zip(updates, unmoved, strict=True)]
    session.rows.add_all_tensor_stats(
        [entry.update_id for _, entry, _ in parameters], Phase.OPTIMIZER, counted, [None] * len(counted)
    )
    for (parameter, _, group), update, weight in zip(parameters, updates, known, strict=True):
        change.setdefault(group, []).append((parameter.numel(), update, weight))
    return change


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
