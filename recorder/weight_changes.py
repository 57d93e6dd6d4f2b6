"""How far an optimizer's step moved the weights: from a sample of the elements of each, before and after."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..schemas import Phase
from .catalogue import ParameterEntry
from .element_sample import gather, sample_size
from .session import Session
from .statistics import LATE_DEVICES, count_nonzero, local, measurable, measure_all

Sampled = list[tuple[Tensor, ParameterEntry, int]]
"""Parameters with their entries and groups."""


def changes(session: Session, sampled: Sampled, before: Tensor) -> dict[int, list[Any]]:
    """Make a row for each update; returns group → (numel, moments of the update, moments of the weight) of its parameters."""
    change: dict[int, list[Any]] = {}
    after = gather([p for p, _, _ in sampled])
    if after.numel() == before.numel():
        sizes = [sample_size(p) for p, _, _ in sampled]
        difference = after - before
        pieces = difference.split(sizes)
        unmoved = _zeros(difference, pieces)
        updates, weights = measure_all(pieces), measure_all(after.split(sizes))
        for (parameter, entry, group), update, zeros, weight in zip(sampled, updates, unmoved, weights, strict=True):
            counted = update if zeros is None else update._replace(zero_count=zeros)
            session.stat(entry.update_id, Phase.OPTIMIZER, counted)
            change.setdefault(group, []).append((parameter.numel(), update, weight))
    return change


def _zeros(difference: Tensor, pieces: Sequence[Tensor]) -> Sequence[int | None]:
    """Elements that are exactly zero in each piece; one look at the whole suffices where every weight has moved. None
    where the device's own statistics count them."""
    if difference.device.type in LATE_DEVICES:
        return [None] * len(pieces)
    if count_nonzero(difference) == difference.numel():
        return [0] * len(pieces)
    ends = torch.tensor([0, *itertools.accumulate(piece.numel() for piece in pieces)])
    before = torch.nn.functional.pad((difference == 0).cumsum(0), (1, 0))[ends]
    return (before[1:] - before[:-1]).tolist()


def sample_of(parameters: Sampled) -> tuple[Sampled, Tensor] | None:
    """The parameters of which elements can be compared, and those elements now; None without any, or on several devices."""
    usable = [
        (p, e, g)
        for p, e, g in ((local(p), e, g) for p, e, g in parameters)
        if measurable(p) and p.layout is torch.strided and p.is_floating_point() and p.numel()
    ]
    if not usable or len({p.device for p, _, _ in usable}) != 1:
        return None
    return usable, gather([p for p, _, _ in usable])
