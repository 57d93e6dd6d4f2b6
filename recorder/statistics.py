"""The statistics kernel: mergeable moments of one tensor, at the price of three reductions.

On CPU ``aminmax`` + ``sum`` + ``dot`` cost about 0.13 ms for a million float32 elements on two cores, a twentieth of
``var_mean``. ``aminmax`` carries NaN and shows infinities, so exact counts are taken only when it comes out non-finite.
Measured tensors are never kept, copied only when their dtype cannot be reduced as it is, and never touched by autograd.
"""

from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import Any, NamedTuple, TypeVar, cast

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


UNKNOWN = Moments(0, None, None, None, None, None, None, None)
EMPTY = Moments(0, 0, 0, 0, None, None, 0.0, 0.0)

item: Callable[[Tensor], Any] = Tensor.item
"""As it was before the recorder wrapped it to count what the script reads: it is called thousands of times a step."""

_DIRECT = (torch.float32, torch.float64)
_PLAIN = (Tensor, torch.nn.Parameter)
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
        type(x) in _PLAIN and not x.is_meta and not x.is_quantized and not x.is_nested and not _is_functorch_wrapped(x)
    )


_T = TypeVar("_T", Tensor, Tensor | None)


def local(x: _T) -> _T:
    """This process's shard of a DTensor, without any communication; everything else as it is.

    What is measured of sharded weights, gradients and activations is each rank's own part: ranks can be added up later.
    """
    if type(x) in _PLAIN or x is None:
        return x
    return cast("_T", getattr(x, "_local_tensor", x)) if type(x).__name__ == "DTensor" else x


def measure(x: Tensor, *, count_zeros: bool = False, size_only: bool = False) -> Moments:
    """Moments of a tensor; with ``size_only`` the extremes and the sum of a finite float32 vector are left out, as null.

    Zeros are counted when the minimum or maximum is exactly zero (what a ReLU leaves behind), always with ``count_zeros``.
    Raises whatever torch raises for a tensor it cannot reduce; the caller decides what that means.
    """
    if (not x.is_cpu or "cpu" in LATE_DEVICES) and x.device.type in LATE_DEVICES:
        return _late([x])[0]
    x = x.detach()
    # nearly all there is to measure
    if x.dtype is torch.float32 and x.layout is torch.strided and x.is_contiguous() and x.numel():
        if x.numel() == 1 and isfinite(value := item(x)) and not size_only:
            zeros = int(value == 0) if value == 0 or count_zeros else None
            return Moments(1, 0, 0, zeros, value, value, value, value * value)
        flat = x.view(-1)
        if size_only:
            return _measure_size(flat)
        few = _measure_few(flat, count_zeros) if x.numel() <= FEW else None
        return few or _measure_flat(flat, count_zeros)
    if x.layout is not torch.strided:
        x = x.coalesce().values() if x.layout is torch.sparse_coo else x.values()
    if x.is_complex():
        x = torch.view_as_real(x)
    numel = x.numel()
    if numel == 0:
        return EMPTY
    dtype = x.dtype
    if dtype is torch.bool:
        ones = int(torch.count_nonzero(x))
        return Moments(numel, 0, 0, numel - ones, float(ones == numel), float(ones > 0), float(ones), float(ones))
    if dtype not in _DIRECT:
        if dtype in _REDUCED or not dtype.is_floating_point:
            few = _measure_few(x.reshape(-1), count_zeros) if dtype not in _REDUCED and numel <= FEW else None
            return few or _measure_wide(x, numel, count_zeros)
        x = x.float()  # float8 and kin: no reductions of their own
    return _measure_flat(x.reshape(-1), count_zeros)


def _measure_size(flat: Tensor) -> Moments:
    """A vector of float32 by one reduction: a finite sum of squares says that every element is finite."""
    squares = item(torch.dot(flat, flat))
    if squares == 0 or not isfinite(squares):  # all zero, or too small or too large to tell by its square
        return _measure_flat(flat, False)
    return Moments(flat.numel(), 0, 0, None, None, None, None, squares)


def _measure_few(flat: Tensor, count_zeros: bool) -> Moments | None:
    """A short vector of float32 or integers on the host; None where something in it is not finite."""
    values: list[float] = flat.tolist()
    added = float(sum(values))
    if not isfinite(added):
        return None
    lo, hi = min(values), max(values)
    zeros = values.count(0) if count_zeros or lo == 0 or hi == 0 else None
    return Moments(len(values), 0, 0, zeros, float(lo), float(hi), added, float(sum([v * v for v in values])))


def _measure_flat(flat: Tensor, count_zeros: bool) -> Moments:
    """A vector of float32 or float64."""
    numel = flat.numel()
    low, high = torch.aminmax(flat)
    lo, hi = item(low), item(high)
    if not (isfinite(lo) and isfinite(hi)):
        return _measure_nonfinite(flat, numel)
    squares = item(torch.dot(flat, flat))
    added = item(flat.sum())
    if squares == inf or not isfinite(added):  # finite elements whose squares or sum leave the dtype
        wide = flat.double()
        squares, added = item(torch.dot(wide, wide)), item(wide.sum())
    zeros = numel - count_nonzero(flat) if count_zeros or lo == 0 or hi == 0 else None
    return Moments(numel, 0, 0, zeros, lo, hi, added, squares)


def measure_all(tensors: Sequence[Tensor]) -> list[Moments]:
    """Moments of many tensors; small ones of one shape are stacked and reduced together.

    Fifty biases of 256 elements cost 0.55 ms one by one and 0.03 ms together: nearly all of it is the price of calling.
    """
    if tensors and all(x.device.type in LATE_DEVICES for x in tensors):
        return _late(tensors)
    results: list[Moments | None] = [None] * len(tensors)
    groups: dict[torch.Size, list[int]] = {}
    for i, x in enumerate(tensors):
        if 0 < x.numel() <= SMALL and x.dtype is torch.float32 and x.is_cpu and x.layout is torch.strided:
            groups.setdefault(x.shape, []).append(i)
    for members in groups.values():
        if len(members) < 3:
            continue
        with torch.no_grad():
            rows = torch.stack([tensors[i] for i in members]).view(len(members), -1)
        for i, moments in zip(members, measure_rows(rows), strict=True):
            results[i] = moments
    return [m if m is not None else measure(x) for m, x in zip(results, tensors, strict=True)]


def measure_rows(rows: Tensor) -> list[Moments]:
    """Moments of each row of a matrix."""
    if rows.device.type in LATE_DEVICES:
        return _late(rows.unbind(0))
    if rows.dtype is not torch.float32 or not rows.shape[1]:
        return [measure(row) for row in rows.unbind(0)]
    low, high = rows.amin(1).tolist(), rows.amax(1).tolist()
    total, norm = rows.sum(1).tolist(), torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64).tolist()
    zeros: list[int] | None = None
    size = rows.shape[1]
    found: list[Moments] = []
    for i, (lo, hi, s, n) in enumerate(zip(low, high, total, norm, strict=True)):
        if not (isfinite(lo) and isfinite(hi) and isfinite(s)):
            found.append(measure(rows[i]))
            continue
        count = None
        if lo == 0 or hi == 0:
            zeros = zeros or (rows == 0).sum(1).tolist()
            count = zeros[i]
        found.append(Moments(size, 0, 0, count, lo, hi, s, n * n))
    return found


def _late(tensors: Sequence[Tensor]) -> list[Moments]:
    """Moments that arrive later stand in for moments: see device_statistics.LateMoments."""
    from .device_statistics import on  # noqa: PLC0415 — it is built on this file

    devices = {x.device for x in tensors}
    if len(devices) == 1:
        return cast("list[Moments]", on(devices.pop()).measure(tensors))
    return [cast("Moments", on(x.device).measure([x])[0]) for x in tensors]


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


def _measure_wide(x: Tensor, numel: int, count_zeros: bool) -> Moments:
    """Half precision and integers: the extremes in their own dtype, the sums in a wider one."""
    if x.dtype in _UNSIGNED:
        x = x.double()
    low, high = torch.aminmax(x)
    lo, hi = item(low), item(high)
    if not (isfinite(lo) and isfinite(hi)):
        return _measure_nonfinite(x.reshape(-1), numel)
    wide = x.reshape(-1).to(torch.float32 if x.dtype in _REDUCED else torch.float64)
    # what has become zero in float16 is a fault of its own
    counted = count_zeros or lo == 0 or hi == 0 or x.dtype is torch.float16
    zeros = numel - int(torch.count_nonzero(x)) if counted else None
    squares, added = item(torch.dot(wide, wide)), item(wide.sum())
    if squares == inf or not isfinite(added):  # bfloat16 reaches as far as float32, its squares do not
        wide = wide.double()
        squares, added = item(torch.dot(wide, wide)), item(wide.sum())
    return Moments(numel, 0, 0, zeros, float(lo), float(hi), added, squares)


def _measure_nonfinite(flat: Tensor, numel: int) -> Moments:
    """Exact counts; rare, so that clarity goes before speed."""
    nan = int(torch.isnan(flat).sum())
    infinite = int(torch.isinf(flat).sum())
    kept = flat[torch.isfinite(flat)].double()
    if kept.numel() == 0:
        return Moments(numel, nan, infinite, 0, None, None, 0.0, 0.0)
    low, high = torch.aminmax(kept)
    zeros = kept.numel() - int(torch.count_nonzero(kept))
    return Moments(numel, nan, infinite, zeros, item(low), item(high), item(kept.sum()), item(torch.dot(kept, kept)))
