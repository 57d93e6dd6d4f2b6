"""What a script makes of a batch before its model sees it: whether one sample's numbers reach the inputs of the others."""

import torch
from torch import Tensor

from .trial import Probe, Setting, Trial, result, untried

_FEWEST = 4
"""Samples of which one cannot be the partner of all others."""
_MOST_PARTNERS = 0.5
"""Share of the other samples from which a change concerns the batch. Arithmetic: mixing in pairs, as mixup does, concerns one."""
_ROUNDING = 1e-5
"""Share of an input's largest number by which equal sums in another order may differ."""


def batch_apart(setting: Setting) -> Probe:
    """Replace the loudest sample of the loader's batch by the quietest: the inputs of most others must stay.

    What is scaled by a maximum, mean or spread of the whole batch depends on what happens to be in it, and so differs between
    training and use. Both samples are the data's own, so that no check of a script refuses them.
    """
    name = "dependence-batch"
    size = setting.batch_size
    if size is None or size < _FEWEST:
        return untried(name, "batch-unknown")
    base = yield Trial()
    again = yield Trial()
    if not base.inputs or not _alike(base.inputs, again.inputs):
        return untried(name, "not-repeatable")
    if any(not t.dim() or t.shape[0] != size for t in base.inputs):
        return untried(name, "input-without-samples", samples=size)
    fields = [i for i, t in enumerate(setting.batch) if t.is_floating_point() and t.dim() > 1 and t.shape[0] == size]
    loudness = sum((_loudness(setting.batch[i]) for i in fields), torch.zeros(size))
    loud, quiet = int(loudness.argmax()), int(loudness.argmin())
    if not fields or loud == quiet:
        return untried(name, "no-numbers")

    def edit(tensors: list[Tensor]) -> None:
        for i in fields:
            tensors[i][loud] = tensors[i][quiet].clone()

    seen = yield Trial(batch=edit)
    if len(seen.inputs) != len(base.inputs) or any(
        a.shape != b.shape for a, b in zip(seen.inputs, base.inputs, strict=True)
    ):
        return untried(name, "not-repeatable")
    changed = torch.zeros(size, dtype=torch.bool)
    for before, after in zip(base.inputs, seen.inputs, strict=True):
        changed |= _changed(before, after).cpu()
    others = int(changed.sum()) - int(changed[loud])
    if others > _MOST_PARTNERS * (size - 1):
        return result(name, "doubtful", "inputs-share-a-scale", changed=loud, others=others, samples=size)
    return result(name, "passed", "inputs-apart", changed=loud, samples=size)


def _loudness(field: Tensor) -> Tensor:
    return field.detach().float().cpu().nan_to_num().abs().flatten(1).amax(1)


def _alike(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def _changed(before: Tensor, after: Tensor) -> Tensor:
    """Whether each sample's numbers are others."""
    if not before.is_floating_point():
        return (before != after).flatten(1).any(1)
    bound = _ROUNDING * float(before.nan_to_num().abs().max())
    return ((before - after).abs() > bound).flatten(1).any(1)


ALL = {"dependence-batch": batch_apart}
