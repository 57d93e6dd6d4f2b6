"""Measure moments by a C library that reads each tensor once, where it was built when firstfault was installed.

It takes addresses of tensors in the host's memory and knows nothing of torch. Torch's operators measure what it cannot read:
another device, a sparse or negated tensor, a dtype of torch's own. They measure everything where there is no library.
``why_not`` says why there is none. ``FIRSTFAULT_NATIVE=0`` in the environment leaves it out.
"""

import ctypes
import math
import os
from array import array
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from struct import Struct

import torch
from torch import Tensor

from .moment_table import MomentTable
from .moments import EMPTY, Moments

ENV_NATIVE = "FIRSTFAULT_NATIVE"
VERSION = 5
"""As in moments.c: a library that was built from another is not used."""

_PATH = Path(__file__).with_name("libmoments.so")
_CODES = {
    dtype: code
    for code, dtype in enumerate(
        (
            torch.float32,
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.bool,
            torch.uint8,
            torch.int8,
            torch.int16,
            torch.int32,
            torch.int64,
            torch.uint16,
            torch.uint32,
            torch.uint64,
        )
    )
}
_ROW = Struct("4q4d")
_PLAIN = frozenset((Tensor, torch.nn.Parameter))
_FLOATS = frozenset((torch.float32, torch.float64, torch.float16, torch.bfloat16))
_MOST_COLUMNS = 128
"""As in firstfault_spread, which has room for no more."""
_is_contiguous = Tensor.is_contiguous
_dtype, _on_host = attrgetter("dtype"), attrgetter("is_cpu")


class Library:
    """The functions of the library. Its results may differ from those of torch's operators in this:

    - zeros are always counted;
    - sums are taken in double over blocks of float, so that they neither overflow nor vanish where those of float32 do.
    """

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))  # which lets other threads run while it works
        pointer, size, code = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
        version = library.firstfault_version
        version.restype = ctypes.c_int32
        if version() != VERSION:
            raise OSError(f"{path} was built from version {version()} of moments.c, not {VERSION}; install again")
        self._of_one = library.firstfault_moments
        self._of_one.argtypes, self._of_one.restype = (pointer, size, code, pointer), None
        self._of_many = library.firstfault_moments_of_many
        self._of_many.argtypes, self._of_many.restype = (size, pointer, pointer, pointer, pointer), None
        self._strided = library.firstfault_moments_strided
        self._strided.argtypes, self._strided.restype = (pointer, code, pointer, pointer, code, pointer), None
        self._squares = library.firstfault_squares
        self._squares.argtypes, self._squares.restype = (pointer, size, code), ctypes.c_double
        self._squares_of_many = library.firstfault_squares_of_many
        self._squares_of_many.argtypes = (size, pointer, pointer, pointer)
        self._squares_of_many.restype = ctypes.c_double
        self._sample = library.firstfault_sample
        self._sample.argtypes, self._sample.restype = (size, pointer, pointer, pointer, size, size, pointer), None
        self._fingerprints = library.firstfault_fingerprints
        self._fingerprints.argtypes = (pointer, size, size, code, size, pointer, pointer, size, pointer)
        self._fingerprints.restype = None
        self._spread = library.firstfault_spread
        self._spread.argtypes, self._spread.restype = (pointer, size, size, size, size, code, pointer), None
        library.firstfault_instructions.restype = ctypes.c_char_p
        self.instructions: str = library.firstfault_instructions().decode()
        """The instructions that it has found in this processor: a name, or ``baseline``."""
        self._rooms: list[tuple[ctypes.Array[ctypes.c_char], int]] = []
        """Places for one result that are not in use; each thread takes its own."""

    def moments(self, x: Tensor) -> Moments | None:
        """Moments of a tensor; None where it must be left to torch."""
        at = address(x)
        return None if at is None else self._moments_at(at, x)

    def _moments_at(self, at: int, x: Tensor) -> Moments:
        numel = x.numel()
        if not numel:
            return EMPTY
        room = self._rooms.pop() if self._rooms else _room()
        if x.is_contiguous():
            self._of_one(at, numel, _CODES[x.dtype], room[1])
        else:
            sizes, strides = _in_order_of_memory(x.shape, x.stride())
            dims = len(sizes)
            sizes, strides = array("q", sizes), array("q", strides)
            self._strided(at, dims, _start(sizes), _start(strides), _CODES[x.dtype], room[1])
        found = Moments(*_ROW.unpack_from(room[0]))
        self._rooms.append(room)
        return found if numel != found[1] + found[2] else _without_extremes(found)  # pyright: ignore[reportOperatorIssue]

    def size(self, x: Tensor) -> Moments | None:
        """Moments of a dense float32 tensor without extremes and sum: a finite sum of squares says that every element is finite.
        All moments where it is zero or not finite, and of other tensors."""
        at = address(x)
        if at is None:
            return None
        if x.dtype is torch.float32 and x.is_contiguous():
            numel = x.numel()
            squares = self._squares(at, numel, _CODES[torch.float32]) if at else 0.0
            if squares and math.isfinite(squares):
                return Moments(numel, 0, 0, None, None, None, None, squares)
        return self._moments_at(at, x)

    def moments_of(self, tensors: Sequence[Tensor]) -> "MomentTable | list[Moments | None]":
        """Moments of many tensors in one call; None for each that must be left to torch."""
        arrays = _arrays_of(tensors, is_dense) if tensors else None
        if arrays is None:
            return [self.moments(x) for x in tensors]
        found = MomentTable(len(tensors))
        self._of_many(len(tensors), *map(_start, arrays), found.address)
        return found

    def moments_of_parts(self, vector: Tensor, sizes: Sequence[int], places: Sequence[int]) -> MomentTable | None:
        """Moments of pieces of a vector, each so many elements from a place on; None where it must be left to torch."""
        at = address(vector)
        if at is None or not vector.is_contiguous():
            return None
        width, code = vector.element_size(), _CODES[vector.dtype]
        found = MomentTable(len(sizes))
        starts = array("Q", [at + place * width for place in places])
        numels, codes = array("q", sizes), array("q", [code]) * len(sizes)
        self._of_many(len(sizes), _start(starts), _start(numels), _start(codes), found.address)
        return found

    def squares_of(self, tensors: Sequence[Tensor]) -> float | None:
        """Sum of the squares of all elements of many tensors: NaN or infinite where one of them is. None where one of them
        must be left to torch."""
        arrays = _arrays_of(tensors, is_dense)
        return self._squares_of_many(len(tensors), *map(_start, arrays)) if arrays is not None else None

    def sample(self, tensors: Sequence[Tensor], runs: int, length: int) -> Tensor | None:
        """Gather evenly spaced runs of neighbouring elements of each tensor into one vector; all elements of a small tensor.

        The vector is float32, or float64 if they are. None where one of the tensors must be left to torch.
        """
        dtypes = set(map(_dtype, tensors))
        if (
            len(dtypes) != 1
            or not _FLOATS.issuperset(dtypes)
            or (arrays := _arrays_of(tensors, _is_contiguous)) is None
        ):
            return None
        sizes = [min(n, runs * length) for n in arrays[1]]
        sample = torch.empty(
            sum(sizes), dtype=torch.float64 if torch.float64 in dtypes else torch.float32, device="cpu"
        )
        self._sample(len(tensors), *map(_start, arrays), runs, length, sample.data_ptr())
        return sample

    def spread(self, rows: Tensor) -> tuple[float, float, float] | None:
        """Root of the mean of the variances of a matrix's columns (128 at most), the same of the directions of its rows, and the
        root mean square of its elements. None where it must be left to torch."""
        at = address(rows) if rows.dtype in _FLOATS and rows.dim() == 2 and rows.shape[1] <= _MOST_COLUMNS else None
        if not at:
            return None
        found = (ctypes.c_double * 3)()
        self._spread(at, *rows.shape, *rows.stride(), _CODES[rows.dtype], ctypes.addressof(found))
        return tuple(found)

    def fingerprints(self, rows: Tensor, places: Tensor | None, factors: Tensor, first: int) -> list[int] | None:
        """For each row of a batch the sum of ``first`` and of its elements at some places (all without), as integers, times a
        factor each. None where the batch must be left to torch."""
        at = address(rows) if rows.is_contiguous() else None
        if not at:
            return None
        count = rows.shape[0]
        found = array("q", bytes(8 * count))
        columns = rows.numel() // count
        self._fingerprints(
            at,
            count,
            columns,
            _CODES[rows.dtype],
            columns if places is None else len(places),
            None if places is None else places.data_ptr(),
            factors.data_ptr(),
            first,
            _start(found),
        )
        return found.tolist()


def _arrays_of(
    tensors: Sequence[Tensor], in_order: Callable[[Tensor], bool]
) -> "tuple[array[int], array[int], array[int]] | None":
    """Addresses, numbers of elements and codes of tensors; None where the library cannot read one of them as it lies. Called at
    every step with every gradient: with as little Python for each as can be."""
    if not _PLAIN.issuperset(map(type, tensors)) or not all(map(_on_host, tensors)):
        return None
    try:
        code = array("q", map(_CODES.__getitem__, map(_dtype, tensors)))
        at = array("Q", map(Tensor.data_ptr, tensors))
        if any(map(Tensor.storage_offset, tensors)) and any(map(_is_freed, tensors)):
            return None
        if any(map(Tensor.is_neg, tensors)) or not all(map(in_order, tensors)):
            return None
    except (KeyError, RuntimeError):  # a dtype of torch's own; no storage
        return None
    numel = array("q", map(Tensor.numel, tensors))
    if not all(at) and any(n and not a for n, a in zip(numel, at, strict=True)):
        return None
    return at, numel, code


def _start(values: "array[int]") -> int:
    """Address of an array."""
    return values.buffer_info()[0]


def address(x: Tensor) -> int | None:
    """Where a tensor's elements begin; None where the library cannot read them. 0 where there is none."""
    if x.dtype not in _CODES or not x.is_cpu or x.is_neg():
        return None
    try:
        at = x.data_ptr()
        if x.storage_offset() and _is_freed(x):
            return None
    except RuntimeError:  # no storage: sparse, or wrapped by functorch
        return None
    return at if at or not x.numel() else None


def is_dense(x: Tensor) -> bool:
    """Whether a tensor's elements lie in memory without gaps, in whatever order, the first of them first."""
    if x.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _is_freed(x: Tensor) -> bool:
    """Whether a tensor's memory has been given back although it has elements, as sharding does: its address means nothing."""
    return not x.untyped_storage().nbytes()


def _in_order_of_memory(shape: Sequence[int], strides: Sequence[int]) -> tuple[list[int], list[int]]:
    """Sizes and strides with the closest elements last, and dimensions that follow each other in memory as one."""
    dims = sorted((d for d in zip(strides, shape, strict=True) if d[1] != 1), reverse=True)
    sizes, steps = [1], [1]
    for step, size in dims:
        if sizes[-1] != 1 and steps[-1] == step * size:
            sizes[-1], steps[-1] = sizes[-1] * size, step
        elif sizes == [1]:
            sizes, steps = [size], [step]
        else:
            sizes.append(size)
            steps.append(step)
    return sizes, steps


def _room() -> "tuple[ctypes.Array[ctypes.c_char], int]":
    """A place for one result, and its address."""
    buffer = ctypes.create_string_buffer(_ROW.size)
    return buffer, ctypes.addressof(buffer)


def _without_extremes(m: Moments) -> Moments:
    return m._replace(min=None, max=None)


def _failed_test(library: Library) -> str | None:
    """What the library gets wrong, if anything: a compiler or a processor may do what was not foreseen."""
    values = [0.0, -3.5, math.nan, 1.5, math.inf, -0.0, 2.0**-149, -math.inf, 60000.0, *([0.25, -0.5] * 1100)]
    finite = [v for v in values if math.isfinite(v)]
    wanted = (len(values), 1, 2, 2, -3.5, 60000.0, math.fsum(finite), math.fsum(v * v for v in finite))
    ints = [7, -5, 0, *range(-60, 61)]
    exact = (len(ints), 0, 0, ints.count(0), -60.0, 60.0, float(sum(ints)), float(sum(v * v for v in ints)))
    cases = [("f", torch.float32, values, wanted), ("d", torch.float64, values, wanted)]
    cases += [(c, t, ints, exact) for c, t in (("b", torch.int8), ("i", torch.int32), ("q", torch.int64))]
    room, at = _room()
    for letter, dtype, numbers, expected in cases:
        held = array(letter, numbers)  # type: ignore[arg-type]
        library._of_one(held.buffer_info()[0], len(held), _CODES[dtype], at)
        got = _ROW.unpack_from(room)
        if got[:6] != expected[:6] or any(
            abs(a - b) > 1e-6 * abs(b) for a, b in zip(got[6:], expected[6:], strict=True)
        ):
            return f"its moments of {str(dtype).removeprefix('torch.')} are {got}, not {expected}"
    return None


def left_out() -> bool:
    """Whether somebody chose not to have the library."""
    return os.environ.get(ENV_NATIVE) == "0"


def _load() -> tuple[Library | None, str | None]:
    """The library, or why there is none."""
    if left_out():
        return None, f"{ENV_NATIVE} is 0"
    if not _PATH.exists():
        return None, f"{_PATH.name} was not built when firstfault was installed: there was no C compiler"
    try:
        library = Library(_PATH)
    except (OSError, AttributeError) as e:  # built for another system, or lacking a function
        return None, str(e)
    failed = _failed_test(library)
    return (None, f"{_PATH.name} fails its test: {failed}") if failed else (library, None)


library, _why_not = _load()
"""In use, or None."""


def why_not() -> str | None:
    """Why tensors on the host are measured by torch's operators; None where the library does it."""
    return _why_not
