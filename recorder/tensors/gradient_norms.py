"""Norms of gradients, for every step: without a row for each tensor."""

import math
from collections.abc import Sequence
from functools import partial
from operator import is_not
from typing import cast

import torch
from torch import Tensor, _foreach_norm  # pyright: ignore[reportPrivateImportUsage]
from torch._utils import _flatten_dense_tensors

from . import native
from .band import Band
from .device import Late, scalar_of
from .moments import LATE_DEVICES, SMALL, Moments, item, measurable
from .norm_parts import Norm, Parted, norm_in_parts, shares_of

_F32, _STRIDED = torch.float32, torch.strided
_exists = partial(is_not, None)

_TOGETHER = 32767
"""Elements that are copied together at most: torch cuts a larger copy of many tensors up for its threads, tensor by tensor,
which takes half as long again. (GRAIN_SIZE in aten/src/ATen/TensorIterator.h)"""


class SeenGradients:
    """What the gradients of one set of parameters were like so far: enough to notice that a closer look is due."""

    __slots__ = ("_norms", "_present", "small")

    def __init__(self) -> None:
        self.small: list[tuple[int, int, int]] = []
        """Where all that were looked at one by one last time were small and on the host: first and last of those that are copied
        together, and their elements."""
        self._norms = Band(2.0, logarithmic=True)
        self._present: bytes | None = None

    def pattern_changed(self, gradients: Sequence[Tensor | None]) -> bool:
        """Whether others than last time are None."""
        present = bytes(map(_exists, gradients))
        before, self._present = self._present, present
        return before is not None and present != before

    def jumped(self, norm: "float | Late | None") -> bool:
        """Whether a norm is not finite or has left its band. One still on a device is passed by."""
        return isinstance(norm, float) and self._norms.left_by(norm) != 0


def quick_norm(gradients: Sequence[Tensor | None], seen: SeenGradients) -> "float | Late | None":
    """Common L2 norm without a row for each; None if there was no gradient at all. Infinite where a square overflows its dtype
    and torch's operators take it."""
    present = cast("list[Tensor]", list(filter(_exists, gradients)))
    if not present:
        return None
    library = native.library
    if library is not None and "cpu" not in LATE_DEVICES and (total := library.squares_of(present)) is not None:
        return math.sqrt(total)
    with torch.no_grad():
        if seen.small and (norm := _norm_of_small(present, seen.small)) is not None:
            return norm
        small: list[Tensor] = []
        by_dtype: dict[torch.dtype, list[Tensor]] = {}
        squares: list[float] = []
        for gradient in present:
            plain = (
                gradient.dtype is _F32 and gradient.layout is _STRIDED and type(gradient) is Tensor and gradient.is_cpu
            )
            if plain and gradient.numel() <= SMALL:
                small.append(gradient)
            elif plain and gradient.is_contiguous() and "cpu" not in LATE_DEVICES:
                flat = gradient.view(-1)
                squares.append(item(torch.dot(flat, flat)))  # takes half the time of a norm
            elif measurable(gradient):
                dense = gradient if gradient.layout is torch.strided else gradient.coalesce().values()
                by_dtype.setdefault(dense.dtype, []).append(dense)
        together = _together(small)
        seen.small = together if len(small) == len(present) else []
        if small and (norm := _norm_of_small(small, together)) is not None:
            squares.append(norm * norm)
        if not by_dtype:
            return math.sqrt(sum(squares)) if squares else None
        joint = [torch.tensor(math.sqrt(sum(squares)), dtype=torch.float64)] if squares else []
        for dtype, dense in by_dtype.items():
            norms = _foreach_norm(dense, dtype=_sum_dtype(dtype))
            if len({norm.device for norm in norms}) > 1:
                return math.hypot(*map(item, (*joint, *norms)))
            joint.append(torch.linalg.vector_norm(torch.stack(norms), dtype=torch.float64))
        if len(joint) > 1 and len({j.device for j in joint}) > 1:
            return math.hypot(*map(item, joint))
        return scalar_of(joint[0] if len(joint) == 1 else torch.linalg.vector_norm(torch.stack(joint)))


def _together(gradients: list[Tensor]) -> list[tuple[int, int, int]]:
    """Which of them to copy together."""
    found: list[tuple[int, int, int]] = []
    first = elements = 0
    for i, gradient in enumerate(gradients):
        numel = gradient.numel()
        if elements + numel > _TOGETHER:
            found.append((first, i, elements))
            first, elements = i, 0
        elements += numel
    return [*found, (first, len(gradients), elements)]


def _norm_of_small(gradients: list[Tensor], together: list[tuple[int, int, int]]) -> float | None:
    """Common L2 norm by a few copies and reductions, which cost a third of as many reductions as there are gradients; None if
    they are not what they were: one is sparse now, of another dtype, on a device, a subclass, or of another size."""
    if len(gradients) != together[-1][1] or type(gradients[0]) is not Tensor or type(gradients[-1]) is not Tensor:
        return None
    squares = 0.0
    for first, end, elements in together:
        try:
            flat = _flatten_dense_tensors(gradients[first:end])
        except RuntimeError:
            return None
        if flat.dtype is not _F32 or not flat.is_cpu or flat.numel() != elements:
            return None
        squares += item(torch.dot(flat, flat))
    return math.sqrt(squares)


def _sum_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in {torch.float16, torch.bfloat16} else dtype


def gradients_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Gradients that an optimizer's parameters have now."""
    return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def joint_norm(measured: list[Moments]) -> float:
    """Common L2 norm of measured gradients; NaN or infinite where one of them is."""
    if any(m.nan_count for m in measured):
        return torch.nan
    if any(m.inf_count for m in measured):
        return torch.inf
    return sum(m.sum_sq or 0.0 for m in measured) ** 0.5


def carried_norm(gradients: list[Tensor], rank: int) -> Parted:
    """Common L2 norm; 0 where there is no gradient."""
    return norm_in_parts(gradients, shares_of(gradients, rank), lambda _, members: _norm_of_dense(members))


def _norm_of_dense(gradients: list[Tensor]) -> Norm:
    dense = [g.detach() for g in gradients if g.layout is torch.strided and measurable(g)]
    if not dense:
        return 0.0
    library = native.library
    if library is not None and "cpu" not in LATE_DEVICES and (total := library.squares_of(dense)) is not None:
        return math.sqrt(total)
    norms: list[Tensor] = []
    for dtype in dict.fromkeys(
        g.dtype for g in dense
    ):  # those of half precision have three digits, and so would their norms
        norms += _foreach_norm([g for g in dense if g.dtype is dtype], dtype=_sum_dtype(dtype))
    return scalar_of(torch.linalg.vector_norm(torch.stack([n.float() for n in norms])))
