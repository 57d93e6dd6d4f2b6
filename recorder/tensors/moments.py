"""The statistics kernel: mergeable moments of one tensor, at the price of three reductions.

On CPU ``aminmax`` + ``sum`` + ``dot`` cost about 0.13 ms for a million float32 elements on two cores, a twentieth of
``var_mean``. ``aminmax`` carries NaN and shows infinities, so exact counts are taken only when it comes out non-finite.
Measured tensors are never kept, copied only when their dtype cannot be reduced as it is, and never touched by autograd.
"""

from collections.abc import Callable
from math import inf, isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Moments(NamedTuple):
    """Moments over the finite elements; None means not measured (or, for min and max, that no element is finite)."""

    numel: int
    nan_count: int | None
    inf_count: int | None
    zero_count: int | None
    min: float | None
    max: float | None
    sum: float | None
    sum_sq: float | None

    @property
    def nonfinite(self) -> int:
        """NaN and infinite elements."""
        return (self.nan_count or 0) + (self.inf_count or 0)


NOT_MEASURED = Moments(0, None, None, None, None, None, None, None)
EMPTY = Moments(0, 0, 0, 0, None, None, 0.0, 0.0)

item: Callable[[Tensor], Any] = Tensor.item
"""As it was before the recorder wrapped it to count what the script reads: it is called thousands of times a step."""

_DIRECT = (torch.float32, torch.float64)
PLAIN = (Tensor, torch.nn.Parameter)
_is_functorch_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # pyright: ignore[reportAttributeAccessIssue]
_REDUCED = (torch.float16, torch.bfloat16)
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # torch cannot compare them
LATE_DEVICES = {"cuda"}
"""Devices whose moments are taken without waiting for them."""

_EXACT_ONES = 1 << 23
SMALL = 8192
"""Elements up to which tensors are worth copying together: calling costs more than reducing them."""

FEW = 64
"""Elements up to which Python is faster than the seven operators of torch that moments take."""


def measurable(x: Tensor) -> bool:
    """Whether the kernel can look at this tensor: a plain strided or sparse one that holds data on a device."""
    return (
        type(x) in PLAIN and not x.is_meta and not x.is_quantized and not x.is_nested and not _is_functorch_wrapped(x)
    )


def node_of(x: Tensor) -> Any:
    """The node of autograd that made a tensor; None for a leaf, and for a view that refuses to say because its base was changed.

    Such views live in FullyShardedDataParallel, which sets its flat parameter again under the views of it.
    """
    if not x.requires_grad:
        return None
    try:
        return x.grad_fn
    except RuntimeError:
        return None


def measure_size(flat: Tensor) -> Moments:
    """A vector of float32 by one reduction: a finite sum of squares says that every element is finite."""
    squares = item(torch.dot(flat, flat))
    if squares == 0 or not isfinite(squares):  # all zero, or too small or too large to tell by its square
        return measure_flat(flat, False)
    return Moments(flat.numel(), 0, 0, None, None, None, None, squares)


def measure_few(flat: Tensor, count_zeros: bool) -> Moments | None:
    """A short vector of float32 or integers on the host; None where something in it is not finite."""
    values: list[float] = flat.tolist()
    added = float(sum(values))
    if not isfinite(added):
        return None
    lo, hi = min(values), max(values)
    zeros = values.count(0) if count_zeros or lo == 0 or hi == 0 else None
    return Moments(len(values), 0, 0, zeros, float(lo), float(hi), added, float(sum([v * v for v in values])))


def measure_flat(flat: Tensor, count_zeros: bool) -> Moments:
    """A vector of float32 or float64."""
    numel = flat.numel()
    low, high = torch.aminmax(flat)
    lo, hi = item(low), item(high)
    if not (isfinite(lo) and isfinite(hi)):
        return measure_nonfinite(flat, numel)
    squares = item(torch.dot(flat, flat))
    added = item(flat.sum())
    if squares == inf or not isfinite(added):  # finite elements whose squares or sum leave the dtype
        wide = flat.double()
        squares, added = item(torch.dot(wide, wide)), item(wide.sum())
    zeros = numel - count_nonzero(flat) if count_zeros or lo == 0 or hi == 0 else None
    return Moments(numel, 0, 0, zeros, lo, hi, added, squares)


def count_nonzero(flat: Tensor) -> int:
    """Non-zero elements of a float vector.

    torch.count_nonzero branches per element: on the half-zero output of a ReLU it is 25 times slower than this. Blocks keep
    the count of ones exact in float32.
    """
    if flat.numel() <= _EXACT_ONES:
        signs = torch.sign(flat)
        ones = item(torch.dot(signs, signs))
        return int(ones) if isfinite(ones) else int(torch.count_nonzero(flat))  # NaN has no sign
    return sum(count_nonzero(block) for block in flat.split(_EXACT_ONES))


def measure_wide(x: Tensor, numel: int, count_zeros: bool) -> Moments:
    """Half precision and integers: the extremes in their own dtype, the sums in a wider one."""
    if x.dtype in _UNSIGNED:
        x = x.double()
    low, high = torch.aminmax(x)
    lo, hi = item(low), item(high)
    if not (isfinite(lo) and isfinite(hi)):
        return measure_nonfinite(x.reshape(-1), numel)
    wide = x.reshape(-1).to(torch.float32 if x.dtype in _REDUCED else torch.float64)
    # what has become zero in float16 is a fault of its own
    counted = count_zeros or lo == 0 or hi == 0 or x.dtype is torch.float16
    zeros = numel - int(torch.count_nonzero(x)) if counted else None
    squares, added = item(torch.dot(wide, wide)), item(wide.sum())
    if squares == inf or not isfinite(added):  # bfloat16 reaches as far as float32, its squares do not
        wide = wide.double()
        squares, added = item(torch.dot(wide, wide)), item(wide.sum())
    return Moments(numel, 0, 0, zeros, float(lo), float(hi), added, squares)


def measure_nonfinite(flat: Tensor, numel: int) -> Moments:
    """Exact counts; rare, so that clarity goes before speed."""
    nan = int(torch.isnan(flat).sum())
    infinite = int(torch.isinf(flat).sum())
    kept = flat[torch.isfinite(flat)].double()
    if kept.numel() == 0:
        return Moments(numel, nan, infinite, 0, None, None, 0.0, 0.0)
    low, high = torch.aminmax(kept)
    zeros = kept.numel() - int(torch.count_nonzero(kept))
    return Moments(numel, nan, infinite, zeros, item(low), item(high), item(kept.sum()), item(torch.dot(kept, kept)))
