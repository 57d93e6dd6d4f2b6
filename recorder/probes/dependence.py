"""What depends on what: a sample on itself alone, earlier outputs not on future tokens, the loss on its target.

Each probe changes one thing and compares two forwards in eval mode, in which no layer mixes samples: what differs depends on
what was changed. This is the probe by which Karpathy's "recipe for training neural networks" finds mixed dimensions.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .trial import Probe, Seen, Setting, Trial, result, untried

_ROUNDING = 1e-4
"""Share of the largest output by which equal sums of float32 in another order may differ, with room for deep models."""


def samples(setting: Setting) -> Probe:
    """Change one sample of the batch: only its own outputs may change, and those of its pairs with others."""
    name = "dependence-sample"
    base, nudge = yield from _where_samples_differ(setting, evaluating=True)
    size = _samples_of(base, setting)
    output = base.outputs[0] if base.outputs else None
    if output is None:
        return untried(name, "no-output")
    if size is None:
        return untried(name, "batch-unknown")
    dims = [(i, _dim_of(t, size)) for i, t in enumerate(base.inputs)]
    if len(base.inputs) == 0 or any(d is None for _, d in dims):
        return untried(name, "input-without-samples", samples=size)
    out_dim = _dim_of(output, size)
    if out_dim is None or size < 2:
        return untried(name, "output-without-samples", samples=size, shape=list(output.shape))
    chosen = size // 2
    again = yield Trial(evaluating=True, keep_outputs=True, nudge=nudge)
    if not again.outputs or not _equal(output, again.outputs[0]).all():
        return untried(name, "not-repeatable")

    def edit(tensors: list[Tensor]) -> None:
        for (_, dim), tensor in zip(dims, tensors, strict=False):
            _change_one(tensor, int(dim or 0), chosen)

    seen = yield Trial(evaluating=True, keep_outputs=True, inputs=edit, nudge=nudge)
    if not seen.outputs or seen.outputs[0].shape != output.shape:
        return untried(name, "not-repeatable")
    if not setting.one_model and torch.equal(output, seen.outputs[0]):
        return untried(name, "other-model")
    same = _unchanged(output, seen.outputs[0], out_dim, chosen)
    others = [i for i in range(size) if i != chosen and not bool(same[i])]
    if others:
        return result(name, "failed", "sample-leaks", changed=chosen, others=len(others), samples=size)
    if torch.equal(output.select(out_dim, chosen), seen.outputs[0].select(out_dim, chosen)):
        return result(name, "failed", "sample-ignored", changed=chosen, samples=size)
    if bool(same[chosen]) and not torch.equal(output, again.outputs[0]):
        return untried(name, "not-repeatable")  # a change as small as the difference of two equal runs
    return result(name, "passed", "sample-alone", changed=chosen, samples=size)


def future_tokens(setting: Setting) -> Probe:
    """Where the targets are the inputs moved by one, change the second half of the input: outputs before it must stay."""
    name = "dependence-future"
    base, nudge = yield from _where_samples_differ(setting, evaluating=True)
    read = _language_model_input(base, setting) or moved_signal(base, setting)
    if read is None:
        return untried(name, "no-language-model")
    size, length = base.inputs[read.index].shape[0], read.length
    place = next((i for i, o in enumerate(base.outputs) if _by_time(o, size, read, base) is not None), None)
    if place is None:
        return untried(name, "no-outputs-by-token", shape=[list(o.shape) for o in base.outputs][:1])
    output = base.outputs[place]
    again = yield Trial(evaluating=True, keep_outputs=True, nudge=nudge)
    if len(again.outputs) <= place or not _equal(output, again.outputs[place]).all():
        return untried(name, "not-repeatable")
    cut = length // 2

    def edit(tensors: list[Tensor]) -> None:
        later = tensors[read.index].narrow(read.time, cut, length - cut)
        other = later.roll(1, 0)
        later.copy_(other if later.shape[0] > 1 and not torch.equal(later, other) else later.flip(read.time))

    seen = yield Trial(evaluating=True, keep_outputs=True, inputs=edit, nudge=nudge)
    if not setting.one_model and torch.equal(output, seen.outputs[place]):
        return untried(name, "other-model")
    same = _by_time(_equal(output, seen.outputs[place]), size, read, base)
    if same is None or len(seen.outputs) <= place or seen.outputs[place].shape != output.shape:
        return untried(name, "not-repeatable")
    changed = ~same[:cut].reshape(cut, -1).all(1)
    if bool(changed.any()):
        return result(name, "failed", "future-leaks", first=int(changed.nonzero()[0]), cut=cut, length=length)
    return result(name, "passed", "future-hidden", cut=cut, length=length)


def targets(setting: Setting) -> Probe:
    """Give every sample the target of another one: the loss must change."""
    name = "dependence-target"
    base, nudge = yield from _where_samples_differ(setting, evaluating=True)
    moved: list[bool] = []

    def edit(tensors: list[Tensor]) -> None:
        for tensor in tensors:
            if tensor.dim() == 0 or tensor.numel() < 2:
                continue
            other = next(
                (o for k in range(1, tensor.shape[0]) if not torch.equal(o := tensor.roll(k, 0), tensor)), None
            )
            if other is not None:
                tensor.copy_(other)
                moved.append(True)

    seen = yield Trial(evaluating=True, targets=edit, nudge=nudge)
    if not seen.edited_targets:
        return untried(name, "target-unknown")
    if not moved:
        return untried(name, "targets-all-equal")
    again = yield Trial(evaluating=True, nudge=nudge)
    if base.loss is None or seen.loss is None or again.loss != base.loss:
        return untried(name, "not-repeatable")
    if seen.loss == base.loss and _rows_alike(base.outputs):
        # in evaluation mode a deep model can give all samples the same at its start; normalising by the batch tells them apart
        base = yield Trial(keep_outputs=True, nudge=nudge)
        seen = yield Trial(targets=edit, nudge=nudge)
        again = yield Trial(nudge=nudge)
        if base.loss is None or seen.loss is None or again.loss != base.loss:
            return untried(name, "not-repeatable")
        if seen.loss == base.loss and _rows_alike(base.outputs):
            return untried(name, "outputs-alike")
    if seen.loss == base.loss:
        return result(name, "failed", "target-ignored", loss=base.loss)
    return result(name, "passed", "target-counts", before=base.loss, after=seen.loss)


def inputs(setting: Setting) -> Probe:
    """Give every sample the input of another one: the loss must change, or what is learnt is the target's average. Where
    there are no targets, or all are equal, samples are blended: they may change places."""
    name = "dependence-input"
    base, nudge = yield from _where_samples_differ(setting, evaluating=False)
    again = yield Trial(nudge=nudge)
    size = _samples_of(base, setting)
    if size is None or size < 2 or base.loss is None or again.loss != base.loss:
        return untried(name, "not-repeatable" if size else "batch-unknown")
    dims = [_dim_of(t, size) for t in base.inputs]
    if not dims or None in dims:
        return untried(name, "input-without-samples", samples=size)

    alone = len(base.inputs) == 1 and len(setting.batch) == 1
    if alone and not base.inputs[0].is_floating_point():
        return untried(name, "target-unknown")

    def exchange(tensors: list[Tensor]) -> None:
        # each by another number: a target among the inputs must not follow its sample
        for shift, (tensor, dim) in enumerate(zip(tensors, dims, strict=False), 1):
            tensor.copy_(tensor.roll(shift, int(dim or 0)))

    def blend(tensors: list[Tensor]) -> None:
        for shift, (tensor, dim) in enumerate(zip(tensors, dims, strict=False), 1):
            if tensor.is_floating_point():
                tensor.copy_((tensor + tensor.roll(shift, int(dim or 0))) / 2)

    seen = yield Trial(inputs=blend if alone else exchange, nudge=nudge)
    if not alone and seen.targets and all(_constant(t) for t in seen.targets):
        # samples change places, and the loss by rounding at most
        if not any(t.is_floating_point() for t in base.inputs):
            return untried(name, "targets-all-equal")
        seen = yield Trial(inputs=blend, nudge=nudge)
    if seen.loss == base.loss:
        return result(name, "doubtful", "input-ignored", loss=base.loss)
    return result(name, "passed", "input-counts", before=base.loss, after=seen.loss)


def graph(setting: Setting) -> Probe:
    """Move weights that get a gradient, but none from the outputs, whose graph does not reach the inputs either: the outputs must
    not change. If they do, another term of the loss alone trains them."""
    name = "dependence-graph"
    if not setting.one_model or setting.optimizers > 1:
        return untried(name, "other-model")
    base = yield Trial(keep_outputs=True, keep_gradients=True, trace_inputs=True)
    if base.reached is None or not base.outputs or not base.traced:
        return untried(name, "no-output")
    pairs = list(zip(setting.parameters, base.gradients, strict=True))
    trained = [g is not None and bool((g != 0).any()) and id(p) not in base.reached for p, g in pairs]
    # a codebook is looked up beside a gradient that is passed straight through: it has no graph, and the input has
    if not any(trained) or any(id(t) in base.reached for t in base.traced):
        return result(name, "passed", "graph-whole", parameters=len(pairs))
    again = yield Trial(keep_outputs=True)
    if not all(torch.equal(a, b) for a, b in zip(base.outputs, again.outputs, strict=False)):
        return untried(name, "not-repeatable")
    drawn = torch.Generator().manual_seed(0)
    nudge = [
        (_NUDGE + p.detach().float().std(unbiased=False)) * torch.randn(p.shape, generator=drawn).to(p)
        if cut
        else torch.zeros_like(p)
        for (p, _), cut in zip(pairs, trained, strict=True)
    ]
    seen = yield Trial(keep_outputs=True, nudge=nudge)
    changed = any(a.numel() > 1 and not _equal(a, b).all() for a, b in zip(base.outputs, seen.outputs, strict=False))
    if not changed:
        return result(name, "passed", "graph-whole", parameters=len(pairs))
    names = [n for n, cut in zip(setting.names, trained, strict=True) if cut]
    return result(name, "doubtful", "graph-cut", first=names[0], count=len(names), parameters=len(pairs))


_NUDGE = 0.02
"""Standard deviation of what is added to weights: as small as the usual initialisation of a language model's."""


def _where_samples_differ(
    setting: Setting, *, evaluating: bool
) -> Generator[Trial, Seen, tuple[Seen, list[Tensor] | None]]:
    """A first trial, and what its weights were moved by: nothing, or a little where all outputs are one number, as those of a
    head of zeros are at the start. What depends on what is the same with other weights."""
    seen = yield Trial(evaluating=evaluating, keep_outputs=True)
    if not seen.outputs or not _all_one(seen.outputs[0]):
        return seen, None
    drawn = torch.Generator().manual_seed(0)
    nudge = [_NUDGE * torch.randn(p.shape, generator=drawn).to(p) for p in setting.parameters]
    return (yield Trial(evaluating=evaluating, keep_outputs=True, nudge=nudge)), nudge


def _constant(target: Tensor) -> bool:
    return target.numel() > 0 and bool((target == target.reshape(-1)[0]).all())


def _all_one(output: Tensor) -> bool:
    return output.numel() > 1 and bool((output == output.flatten()[0]).all())


def _rows_alike(outputs: list[Tensor]) -> bool:
    """Whether all rows of each output are the same but for what a mean over them rounds away."""
    rows = [o for o in outputs if o.dim() and o.shape[0] > 1]
    return bool(rows) and all(float((o - o[:1]).abs().max()) <= _ALIKE * float(o.abs().max()) for o in rows)


_ALIKE = 1e-4
"""Relative difference of two rows that is lost in a float32 mean of losses. Arithmetic: its rounding is 6e-8 for each of some
hundred summands, and a loss changes with the square of a small difference."""


def _samples_of(seen: Seen, setting: Setting) -> int | None:
    """How many samples are in the batch: known of a DataLoader, and of a language model by its moved targets."""
    if setting.batch_size is None and (tokens := _language_model_input(seen, setting)) is not None:
        return seen.inputs[tokens.index].shape[0]
    return setting.batch_size


def _dim_of(tensor: Tensor, size: int) -> int | None:
    """The dimension of the samples: the first of that size; None where two may be meant or there is none."""
    return next((i for i, n in enumerate(tensor.shape[:2]) if n == size), None)


def _unchanged(before: Tensor, after: Tensor, dim: int, chosen: int) -> Tensor:
    """Whether the outputs of each sample stayed. Those of pairs of samples, as of each image and each text, are of both."""
    equal = _equal(before, after)
    size = equal.shape[dim]
    if equal.shape == (size, size):
        equal[torch.arange(size) != chosen, chosen] = True
    return equal.movedim(dim, 0).reshape(size, -1).all(1)


def _change_one(tensor: Tensor, dim: int, chosen: int) -> None:
    row = tensor.select(dim, chosen)
    for other in range(tensor.shape[dim]):
        candidate = tensor.select(dim, other)
        if not torch.equal(candidate, row):
            row.copy_(candidate.clone())
            return
    if tensor.is_floating_point():
        row.add_(1.0)


def _equal(a: Tensor, b: Tensor) -> Tensor:
    scale = a[a.isfinite()].abs().max() if bool(a.isfinite().any()) else torch.tensor(0.0)
    close = (a - b).abs() <= _ROUNDING * float(scale)
    return close | (a == b) | (a.isnan() & b.isnan())


@dataclass(frozen=True, slots=True)
class Sequence:
    """An input whose targets are its own values, moved by one."""

    index: int
    time: int
    """Its dimension of time; samples are in the first."""
    length: int
    goal: Tensor
    values: bool = False
    """Whether these are measured values, not classes."""


def _language_model_input(seen: Seen, setting: Setting) -> Sequence | None:
    """An input whose targets are its own tokens, moved by one; or the same, which the model moves."""
    goals = [t for t in [*setting.targets, *seen.targets, *seen.inputs] if not t.is_floating_point() and t.dim() <= 2]
    for i, tokens in enumerate(seen.inputs):
        if tokens.is_floating_point() or tokens.dim() != 2 or tokens.shape[1] < 4 or int(tokens.max()) < 2:
            continue
        for goal in goals:
            if goal is not tokens and _next_tokens(tokens, goal):
                return Sequence(i, 1, tokens.shape[1], goal)
    return None


def _next_tokens(tokens: Tensor, goal: Tensor) -> bool:
    if goal.numel() != tokens.numel():
        return False
    shaped = goal.reshape(tokens.shape)
    counted = shaped[:, :-1] >= 0
    moved = (shaped[:, :-1] == tokens[:, 1:]) | ~counted
    return int(counted.sum()) >= 4 and float(moved.float().mean()) > 0.99 and len(torch.unique(tokens)) > 2


_LEVELS = 8
"""Different values from which a signal's next one is no chance. Convention of this probe."""


def moved_signal(seen: Seen, setting: Setting) -> Sequence | None:
    """An input of one-hot rows or of one channel whose targets are the same signal, moved by one."""
    goals = [t for t in [*setting.targets, *seen.targets] if t.dim()]
    for i, x in enumerate(seen.inputs):
        if not x.is_floating_point() or x.dim() not in (2, 3) or x.shape[0] < 1:
            continue
        for time in range(1, x.dim()):
            length, other = x.shape[time], x.shape[3 - time] if x.dim() == 3 else 1
            if length < _LEVELS:
                continue
            one_hot = other > 2 and bool(((x == 0) | (x == 1)).all()) and bool((x.sum(3 - time) == 1).all())
            if one_hot:
                signal = x.argmax(3 - time)
            elif other == 1:
                signal = x.reshape(x.shape[0], length)
            else:
                continue
            for goal in goals:
                if one_hot and not goal.is_floating_point() and _next_tokens(signal, goal):
                    return Sequence(i, time, length, goal)
                if not one_hot and _next_values(signal, goal):
                    return Sequence(i, time, length, goal, values=True)
    return None


def _next_values(signal: Tensor, goal: Tensor) -> bool:
    """Whether targets are the next values of a signal that moves, or their classes in the same order. Of a circle, whose
    last target is the first value, the dimension may be space."""
    if goal.numel() != signal.numel() or len(torch.unique(signal)) < _LEVELS:
        return False
    shaped = goal.reshape(signal.shape)
    if goal.is_floating_point():
        moved, still = shaped[:, :-1] == signal[:, 1:], shaped == signal
        circle = torch.equal(shaped[:, -1], signal[:, 0])
        return float(moved.float().mean()) > 0.99 and float(still.float().mean()) < 0.5 and not circle
    moved_by_one, as_it_is = _in_order(signal[:, 1:], shaped[:, :-1]), _in_order(signal, shaped)
    return len(torch.unique(goal)) >= _LEVELS and moved_by_one > 0.99 and as_it_is < 0.9


def _in_order(values: Tensor, classes: Tensor) -> float:
    """Share of neighbours among the values, sorted, whose classes do not fall."""
    ranked = classes.reshape(-1)[values.reshape(-1).argsort()]
    return float((ranked[1:] >= ranked[:-1]).float().mean())


def by_time(output: Tensor, seen: Seen, read: Sequence) -> Tensor | None:
    """An output with time in its first dimension, of the samples of an input; None where that is not certain."""
    return _by_time(output, seen.inputs[read.index].shape[0], read, seen)


def _by_time(output: Tensor, samples: int, read: Sequence, seen: Seen) -> Tensor | None:
    """An output with time in its first dimension; None where another may be time too, or none is."""
    length = read.length
    if output.dim() == 2 and output.shape == (samples * length, output.shape[1]) and output.shape[1] > 1:
        # samples come first in flat outputs where they do in the loss's own flat targets
        flat = any(t.dim() == 1 and torch.equal(t, read.goal.reshape(-1)) for t in seen.targets)
        return output.reshape(samples, length, -1).movedim(1, 0) if flat else None
    if output.dim() < (2 if read.values else 3):
        return None
    if output.shape[0] == samples:
        times = [i for i, n in enumerate(output.shape) if i and n == length]
        if times == [1, 2] and output.dim() == 3 and any(t.dim() == 1 for t in seen.targets):
            times = [1]  # classes are last where the loss takes flat targets
    else:
        times = [i for i, n in enumerate(output.shape) if n == length] if samples in output.shape else []
    return output.movedim(times[0], 0) if len(times) == 1 else None


ALL: dict[str, Any] = {
    "dependence-sample": samples,
    "dependence-future": future_tokens,
    "dependence-target": targets,
    "dependence-input": inputs,
    "dependence-graph": graph,
}
