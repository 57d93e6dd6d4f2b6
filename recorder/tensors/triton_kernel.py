"""The statistics kernel for accelerators, in Triton: one pass over each tensor, one launch for many tensors of one dtype.

Two stages and no atomics, so that the same data gives the same bits: each program reduces a stretch of one tensor to a row
of partial moments; then one program per tensor joins its rows. Nothing here waits for the device.

Rows are float64: nan, inf, zero, min, max, sum, sum of squares, 1. From zero to sum of squares they are over the finite elements.
Sums are taken in float64 unless the elements are float16, whose squares float32 holds.
"""

from itertools import accumulate

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

COLUMNS = 8
"""Columns of a row; the last is 1 once the row is written."""

STRETCH = 1 << 14
"""Elements that one program of the first stage reads."""

BLOCK = 1 << 10
"""Elements that it holds at a time."""

_WIDTH = 1 << 7
"""Rows of partial moments that a program of the second stage holds at a time."""


@triton.jit
def _stretch(base, start, numel, row, STRETCH: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    nan = tl.zeros((BLOCK,), tl.float64)
    infinite = tl.zeros((BLOCK,), tl.float64)
    zero = tl.zeros((BLOCK,), tl.float64)
    low = tl.full((BLOCK,), float("inf"), tl.float64)
    high = tl.full((BLOCK,), float("-inf"), tl.float64)
    total = tl.zeros((BLOCK,), tl.float64)
    squares = tl.zeros((BLOCK,), tl.float64)
    for offset in range(0, STRETCH, BLOCK):
        at = start + offset + tl.arange(0, BLOCK)
        inside = at < numel
        x = tl.load(base + at, mask=inside, other=0.0).to(WIDE)
        is_nan = x != x
        is_infinite = tl.abs(x) == float("inf")
        kept = inside & (is_nan == 0) & (is_infinite == 0)
        value = tl.where(kept, x, 0.0)
        nan += tl.where(inside & is_nan, 1.0, 0.0)
        infinite += tl.where(inside & is_infinite, 1.0, 0.0)
        zero += tl.where(kept & (x == 0), 1.0, 0.0)
        low = tl.minimum(low, tl.where(kept, x, float("inf")).to(tl.float64))
        high = tl.maximum(high, tl.where(kept, x, float("-inf")).to(tl.float64))
        total += value.to(tl.float64)
        squares += (value * value).to(tl.float64)
    tl.store(row, tl.sum(nan, 0))
    tl.store(row + 1, tl.sum(infinite, 0))
    tl.store(row + 2, tl.sum(zero, 0))
    tl.store(row + 3, tl.min(low, 0))
    tl.store(row + 4, tl.max(high, 0))
    tl.store(row + 5, tl.sum(total, 0))
    tl.store(row + 6, tl.sum(squares, 0))


@triton.jit
def _partial(
    pointers,
    numels,
    owners,
    firsts,
    rows,
    STRETCH: tl.constexpr,
    BLOCK: tl.constexpr,
    DTYPE: tl.constexpr,
    WIDE: tl.constexpr,
):
    program = tl.program_id(0)
    owner = tl.load(owners + program)
    numel = tl.load(numels + owner)
    base = tl.load(pointers + owner).to(tl.pointer_type(DTYPE))
    start = (program - tl.load(firsts + owner)).to(tl.int64) * STRETCH
    _stretch(base, start, numel, rows + program.to(tl.int64) * 8, STRETCH, BLOCK, WIDE)


@triton.jit
def _partial_of_one(base, numels, rows, STRETCH: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    _stretch(base, program * STRETCH, tl.load(numels), rows + program * 8, STRETCH, BLOCK, WIDE)


@triton.jit
def _joined(rows, firsts, counts, out, WIDTH: tl.constexpr):
    owner = tl.program_id(0)
    first = tl.load(firsts + owner).to(tl.int64)
    count = tl.load(counts + owner)
    nan = tl.zeros((WIDTH,), tl.float64)
    infinite = tl.zeros((WIDTH,), tl.float64)
    zero = tl.zeros((WIDTH,), tl.float64)
    low = tl.full((WIDTH,), float("inf"), tl.float64)
    high = tl.full((WIDTH,), float("-inf"), tl.float64)
    total = tl.zeros((WIDTH,), tl.float64)
    squares = tl.zeros((WIDTH,), tl.float64)
    for offset in range(0, count, WIDTH):
        at = offset + tl.arange(0, WIDTH)
        inside = at < count
        row = rows + (first + at) * 8
        nan += tl.load(row, mask=inside, other=0.0)
        infinite += tl.load(row + 1, mask=inside, other=0.0)
        zero += tl.load(row + 2, mask=inside, other=0.0)
        low = tl.minimum(low, tl.load(row + 3, mask=inside, other=float("inf")))
        high = tl.maximum(high, tl.load(row + 4, mask=inside, other=float("-inf")))
        total += tl.load(row + 5, mask=inside, other=0.0)
        squares += tl.load(row + 6, mask=inside, other=0.0)
    slot = out + owner.to(tl.int64) * 8
    tl.store(slot, tl.sum(nan, 0))
    tl.store(slot + 1, tl.sum(infinite, 0))
    tl.store(slot + 2, tl.sum(zero, 0))
    tl.store(slot + 3, tl.min(low, 0))
    tl.store(slot + 4, tl.max(high, 0))
    tl.store(slot + 5, tl.sum(total, 0))
    tl.store(slot + 6, tl.sum(squares, 0))
    tl.store(slot + 7, 1.0)


_ELEMENT = {
    torch.float16: (tl.float16, tl.float32),
    torch.bfloat16: (tl.bfloat16, tl.float64),
    torch.float32: (tl.float32, tl.float64),
    torch.float64: (tl.float64, tl.float64),
}
"""dtype of the tensor → as it is loaded, and as it is squared."""

DTYPES = frozenset(_ELEMENT)
"""What the kernel reads."""


class Plan:
    """Where each program of a launch finds its work: tables on the device, made once for a set of sizes."""

    def __init__(self, numels: tuple[int, ...], device: torch.device) -> None:
        counts = [max(1, -(-n // STRETCH)) for n in numels]
        firsts = [0, *accumulate(counts[:-1])]
        owners = [i for i, c in enumerate(counts) for _ in range(c)]
        self.programs = len(owners)
        self.tensors = len(numels)
        self._table = _to_device([*numels, *firsts, *counts, *owners], device)
        n = self.tensors
        self.numels, self.firsts, self.counts = self._table[:n], self._table[n : 2 * n], self._table[2 * n : 3 * n]
        self.owners = self._table[3 * n :]
        self.rows = torch.empty(self.programs * COLUMNS, dtype=torch.float64, device=device)


def launch(tensors: list[Tensor], plan: Plan, out: Tensor) -> None:
    """Moments of tensors of one dtype and device, flat and dense, into ``out`` of shape (tensors, COLUMNS), contiguous,
    which may lie in pinned memory of the host."""
    element, wide = _ELEMENT[tensors[0].dtype]
    if len(tensors) == 1:  # as outputs of modules are: a table of one address would be one more copy to the device
        _partial_of_one[(plan.programs,)](tensors[0], plan.numels, plan.rows, STRETCH=STRETCH, BLOCK=BLOCK, WIDE=wide)
    else:
        _partial[(plan.programs,)](
            _to_device([t.data_ptr() for t in tensors], tensors[0].device),
            plan.numels,
            plan.owners,
            plan.firsts,
            plan.rows,
            STRETCH=STRETCH,
            BLOCK=BLOCK,
            DTYPE=element,
            WIDE=wide,
        )
    _joined[(plan.tensors,)](plan.rows, plan.firsts, plan.counts, out, WIDTH=_WIDTH)


def _to_device(values: list[int], device: torch.device) -> Tensor:
    """Integers on the device without making the host wait: through pinned memory where there is such."""
    host = torch.tensor(values, dtype=torch.int64)
    if device.type == "cuda":
        host = host.pin_memory()
    return host.to(device, non_blocking=True)
