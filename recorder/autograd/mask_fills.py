"""Softmaxes over scores that a mask was to take out, and which leave them a probability all the same."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..tensors.moments import LATE_DEVICES, measurable
from .graph import dimension, nodes_down_to, saved_tensor, shape_of
from .linear_parts import operator_name

_SOFTMAXES = {"Softmax", "LogSoftmax"}
_SAME_ORDER = {"View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Clone", "ToCopy", "Alias"}
"""Operators whose result holds the same values one after the other."""

_TAKES_OUT = {"MaskedFill", "Where", "Index", "MaskedSelect"}
"""Operators that take entries out behind a softmax."""

_MOST_BETWEEN = 6
_MOST_SOFTMAXES = 8
"""Masked softmaxes of a loss that are looked at."""

_MOST_ELEMENTS = 1 << 20

_LEAK = 1e-3
"""Probability under a mask, above which it is there: a fill of -10 or less leaves none."""

_SAME = 1e-4
"""Relative difference of probabilities that are of one number."""

_FEWEST = 64
_NEAR = 0.05
"""Of the entries that are kept, the nearest to the fill against one in the middle: what a threshold keeps is all far from it."""


class Leak(NamedTuple):
    """``kind`` of mask: ``later`` places, ``padding``, or other ``entries``. ``op`` is the operator that masked. ``share`` is the
    mean probability that rows leave to what is masked, ``uniform`` what equal scores would leave."""

    kind: str
    op: str
    node: Any
    rows: int
    share: float
    uniform: float


def leaks(loss: Tensor) -> tuple[int, Leak | None]:
    """How many softmaxes behind a loss are masked, as far as so many, and the first that leaves probability under its mask."""
    nodes = nodes_down_to(loss, 0)
    seen, consumers = 0, None
    for node in nodes:
        if operator_name(node) not in _SOFTMAXES or seen >= _MOST_SOFTMAXES:
            continue
        found = _masked(node)
        if found is None:
            continue
        seen += 1
        leak = _leak(node, *found)
        if leak is not None:
            consumers = consumers or _consumers(nodes)
            if not _taken_out_later(node, consumers):
                return seen, leak
    return seen, None


def _masked(softmax: Any) -> tuple[Tensor, Tensor, str] | None:
    """Probabilities, where they are masked, and the operator that masked; None where none did."""
    node = softmax
    for _ in range(_MOST_BETWEEN):
        node = node.next_functions[0][0]
        if node is None:
            return None
        name = operator_name(node)
        if not (name in _SAME_ORDER or (name in {"Mul", "Div"} and _by_one_number(node))):
            break
    mask = _mask_of(node)
    shape = shape_of(node, 0)
    result = saved_tensor(softmax, "result")
    if mask is None or shape is None or result is None or not measurable(result):
        return None
    if not 0 < result.numel() <= _MOST_ELEMENTS or result.device.type in LATE_DEVICES or mask.numel() > result.numel():
        return None
    result = result.detach().float()
    if operator_name(softmax) == "LogSoftmax":
        result = result.exp()
    try:
        mask = mask.expand(shape).reshape(result.shape)
    except RuntimeError:
        return None
    axis = dimension(softmax._saved_dim, result.dim())
    return result.movedim(axis, -1), mask.movedim(axis, -1), operator_name(node)


def _by_one_number(node: Any) -> bool:
    behind = [n for n, _ in node.next_functions]
    factor = saved_tensor(node, "other")
    return len(behind) == 2 and behind[0] is not None and behind[1] is None and factor is not None and factor.dim() == 0


def _mask_of(node: Any) -> Tensor | None:
    """Where scores were replaced by one number: true. None where nothing was."""
    name = operator_name(node)
    behind = [n for n, _ in node.next_functions] or [None]
    mask: Tensor | None = None
    if name == "MaskedFill" and behind[0] is not None and (len(behind) < 2 or behind[1] is None):
        mask = saved_tensor(node, "mask")
    elif name == "Where" and len(behind) == 2 and (behind[0] is None) != (behind[1] is None):
        condition = saved_tensor(node, "condition")
        mask = condition if condition is None or behind[0] is None else ~condition
    elif name == "Mul" and len(behind) == 2 and (behind[0] is None) != (behind[1] is None):
        factor = saved_tensor(node, "self" if behind[0] is None else "other")
        if factor is not None and 1 < factor.numel() <= _MOST_ELEMENTS and factor.device.type not in LATE_DEVICES:
            factor = factor.detach()
            mask = factor == 0
            if not bool((mask | (factor == 1)).all()):
                return None
    return mask if mask is None or mask.device.type not in LATE_DEVICES else None


def _leak(softmax: Any, chances: Tensor, mask: Tensor, op: str) -> Leak | None:
    width = chances.shape[-1]
    rows, masked = chances.reshape(-1, width), mask.reshape(-1, width)
    used = masked.any(-1) & ~masked.all(-1)
    if not bool(used.any()):
        return None
    kind = _kind(mask, masked, used)
    rows, masked = rows[used], masked[used]
    under = (rows * masked).sum(-1)
    if not bool(((under > _LEAK).float().mean() > 0.5) & rows.isfinite().all()) or not _one_number(rows, masked):
        return None
    if kind == "entries" and (op == "Mul" or not _whatever_the_scores(rows, masked)):
        return None
    uniform = float(masked.float().mean(-1).mean())
    return Leak(kind, op, softmax, len(rows), float(under.mean()), uniform)


def _kind(mask: Tensor, masked: Tensor, used: Tensor) -> str:
    """What a mask hides."""
    if mask.dim() >= 2 and mask.shape[-1] >= mask.shape[-2] > 1:
        behind = mask.new_ones(mask.shape[-2:]).triu(1 + mask.shape[-1] - mask.shape[-2])
        if bool(mask[..., behind].all()) and bool((~mask[..., ~behind]).any()):
            return "later"
    counts = masked[used].sum(-1)
    if bool((counts != counts[0]).any()):
        places = masked[used].long()
        steps = places.diff(dim=-1)
        if bool((steps >= 0).all()) or bool((steps <= 0).all()):
            return "padding"
    return "entries"


def _one_number(rows: Tensor, masked: Tensor) -> bool:
    """Whether all that is masked in a row has the same score."""
    high = rows.masked_fill(~masked, 0.0).amax(-1)
    low = rows.masked_fill(~masked, 1.0).amin(-1)
    return bool((high - low <= _SAME * high).all())


def _whatever_the_scores(rows: Tensor, masked: Tensor) -> bool:
    """Whether entries are masked for something other than their scores, which no bound and no threshold does, and not the same
    in each row or one in each, as a choice that is a reference or the sample itself."""
    counts = masked.sum(-1)
    if bool((masked == masked[0]).all()) or bool((counts == 1).all()):
        return False
    fill = rows.masked_fill(~masked, 0.0).amax(-1, keepdim=True)
    kept = (rows.clamp_min(torch.finfo(rows.dtype).tiny).log() - fill.clamp_min(torch.finfo(rows.dtype).tiny).log())[
        ~masked
    ]
    if kept.numel() < _FEWEST or not bool((kept > 0).any() & (kept < 0).any()):
        return False
    distances = kept.abs()
    return bool(distances.min() < _NEAR * distances.median())


def _consumers(nodes: list[Any]) -> dict[Any, list[Any]]:
    """Operators by what they were given."""
    found: dict[Any, list[Any]] = {}
    for node in nodes:
        for behind, _ in node.next_functions:
            if behind is not None:
                found.setdefault(behind, []).append(node)
    return found


def _taken_out_later(softmax: Any, consumers: dict[Any, list[Any]]) -> bool:
    """Whether what is masked is taken out behind the softmax, as where it is normalised again."""
    todo = [softmax]
    for _ in range(_MOST_BETWEEN):
        todo = [consumer for node in todo for consumer in consumers.get(node, ())][: 4 * _MOST_BETWEEN]
        following = []
        for node in todo:
            name = operator_name(node)
            if name in _TAKES_OUT or (name == "Mul" and _mask_of(node) is not None):
                return True
            if name in _SAME_ORDER or name in {"NativeDropout", "Expand"} or (name == "Mul" and _drops(node)):
                following.append(node)
        todo = following
    return False


def _drops(node: Any) -> bool:
    """A product with numbers that have no graph, such as a dropout."""
    return any(behind is None for behind, _ in node.next_functions)
