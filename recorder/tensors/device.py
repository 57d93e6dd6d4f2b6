"""Measure moments of tensors on an accelerator, without making the host wait for it.

Each measured tensor gets a row in a page of pinned host memory, into which the device writes by itself. The rows can be read
once the event at the end of the step has come, usually during the next step. Until then a row of a table holds a `Late` value.
Rows that were written before an error of the device (an assertion in a kernel, an illegal address) can be read after it too.

The kernel is Triton's where there is one; else torch's operators compute the same moments, with several launches for each
tensor.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from math import isnan
from typing import Any

import torch
from torch import Tensor

from .moments import EMPTY, LATE_DEVICES, NOT_MEASURED, Moments, item

COLUMNS = 8
_WRITTEN = 7
"""Column that is 1 where the device has written the row of a tensor."""

_PAGE = 4096
"""Rows of a page: 256 KiB; a step with more takes another page."""

_NUMBERS = 64
"""Places for single numbers."""

_UNWRITTEN = 0x7FF8_DEAD_BEEF_0001
"""Bits of a NaN that no arithmetic makes."""

_LOST = re.compile(
    "device-side assert|illegal memory access|illegal instruction|illegal address|misaligned address|unspecified launch failure|"
    "hardware stack error|invalid program counter|launch timed out|uncorrectable|unable to recover|device is lost",
    re.IGNORECASE,
)
"""Errors after which CUDA answers every further call of the process with the same error (CUDA's own list of such errors)."""

_CACHED_PLANS = 256
"""Sets of sizes; each output of a module that is measured alone has one."""


class Late:
    """A value that is known when its page has arrived, and remembered from then on."""

    __slots__ = ("_compute", "_known", "_value")

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute = compute
        self._known = False
        self._value: Any = None

    def compute(self) -> Any:
        """The value; waits for the device where it has not arrived."""
        if not self._known:
            self._value = wait_for(self._compute())
            self._known = True
        return self._value


def is_lost(error: BaseException) -> bool:
    """Whether an error says that the device answers nothing more to this process."""
    return isinstance(error, RuntimeError) and "error" in str(error) and _LOST.search(str(error)) is not None


def wait_for(value: Any) -> Any:
    """A value whose page has arrived (or that was never late); waits for the device where it has not."""
    while isinstance(value, (Late, LateMoments)):
        value = value.compute()
    return value


def scalar_of(value: Tensor) -> "float | Late | None":
    """A number in a tensor of one element: at once on the host, late elsewhere, None inside a CUDA graph."""
    return stats_of_device(value.device).scalar(value) if value.device.type in LATE_DEVICES else value.item()


def join_when_ready(values: Sequence[Any], join: Callable[[list[Any]], Any]) -> Any:
    """Join values: at once where all are known, else when they are. None where one of them is not known at all."""

    def joined() -> Any:
        known = [wait_for(v) for v in values]
        return None if any(v is None for v in known) else join(known)

    return Late(joined) if any(isinstance(v, (Late, LateMoments)) for v in values) else joined()


class LateMoments:
    """Moments that are on their way. Every attribute but ``numel`` and ``nonfinite`` waits for the device."""

    __slots__ = ("numel", "page", "row", "use")

    def __init__(self, page: "Page", row: int, numel: int) -> None:
        self.page = page
        self.row = row
        self.numel = numel
        self.use = page.use

    @property
    def nonfinite(self) -> int:
        """0 as long as it is not known: what must act at once cannot wait."""
        return self.compute().nonfinite if self.page.ready() else 0

    def compute(self) -> Moments:
        """The moments; waits for the device where they have not arrived. Unknown once the page has been used again, and where
        the device has not written them: it was lost before that."""
        row = self.page.row(self.row) if self.use == self.page.use else None
        if row is None or row[_WRITTEN] != 1:
            return NOT_MEASURED._replace(numel=self.numel)
        nan, infinite, zero, low, high, total, squares, _ = row
        nan, infinite = int(nan), int(infinite)
        any_finite = nan + infinite < self.numel
        return Moments(
            self.numel,
            nan,
            infinite,
            int(zero),
            low if any_finite else None,
            high if any_finite else None,
            total,
            squares,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compute(), name)


class Page:
    """Rows of one step on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rows = torch.zeros(_PAGE, COLUMNS, dtype=torch.float64, pin_memory=device.type == "cuda")
        """Memory of the host that the device can write to."""
        self.bits = self.rows.view(torch.int64).fill_(_UNWRITTEN)
        """The same memory, to tell what is not written from a NaN."""
        self.used = 0
        self.use = 0
        """How often the page has been used again."""
        self.event: torch.cuda.Event | None = None
        self.lost = False
        """Whether the device broke down before all rows were written."""
        self._values: list[list[float]] | None = None
        self._sealed = False

    def take(self, count: int) -> list[int]:
        """Numbers of the next rows."""
        self.used += count
        return list(range(self.used - count, self.used))

    def seal(self) -> None:
        """The step is over: the rows are there when all that has been launched so far is done."""
        self._sealed = True
        if self.device.type == "cuda":
            self._ask(self._mark)

    def _mark(self) -> None:
        self.event = torch.cuda.Event()
        self.event.record(torch.cuda.current_stream(self.device))

    def ready(self) -> bool:
        """Whether the rows have arrived; asking costs no wait."""
        return self._sealed and (self.event is None or self.lost or self._ask(self.event.query))

    def row(self, number: int) -> list[float]:
        """A row; waits where it has not arrived."""
        if self._values is None:
            if not self._sealed:
                if self.device.type == "cuda":
                    self._ask(partial(torch.cuda.synchronize, self.device))
                return self.rows[number].tolist()
            if not self.ready() and self.event is not None:
                self._ask(self.event.synchronize)
            self._values = self.rows[: self.used].tolist()
        return self._values[number]

    def scalar(self, number: int) -> float | None:
        """The number of a row; None if the device has not written it: it was lost, or does so on a stream of its own."""
        value = self.row(number)[0]
        return None if isnan(value) and item(self.bits[number, 0]) == _UNWRITTEN else value

    def reuse(self) -> None:
        """Nobody asks for its rows any more."""
        self.bits[: self.used] = _UNWRITTEN
        self.used, self.event, self._values, self._sealed = 0, None, None, False
        self.use += 1

    def _ask(self, question: Callable[[], Any]) -> Any:
        """What the device answers; True from one that is lost, which will write nothing more."""
        try:
            return question()
        except RuntimeError as e:
            if not is_lost(e):
                raise
            self.lost = True
            return True


class LateNumbers:
    """Single numbers of a device that arrive in pinned memory by themselves: whether one has come is asked without a call to it.

    A place holds a pattern of bits that no number of a device has until its number is written there.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        numbers = torch.zeros(_NUMBERS, dtype=torch.float64, pin_memory=device.type == "cuda")
        self._numbers = numbers.unbind()
        self._bits = numbers.view(torch.int64).unbind()
        self._next = 0

    def send(self, value: Tensor) -> int | None:
        """Start the copy of a number; returns its place, or None while a CUDA graph is captured. A place is used again after as
        many numbers as there are places."""
        if _capturing(self.device):
            return None
        place, self._next = self._next, (self._next + 1) % _NUMBERS
        self._bits[place].fill_(_UNWRITTEN)
        self._numbers[place].copy_(value.detach().reshape(()), non_blocking=True)
        return place

    def arrived(self, place: int) -> float | None:
        """The number at a place, None as long as it is on its way."""
        return None if item(self._bits[place]) == _UNWRITTEN else item(self._numbers[place])


class DeviceStatistics:
    """Pages of one device, and the kernel that fills them."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.why_not_fused: str | None = None
        self._free: list[Page] = []
        self._page: Page | None = None
        self._full: list[Page] = []
        self._plans: dict[tuple[int, ...], Any] = {}
        self._kernel = self._load_kernel()

    def measure(self, tensors: Sequence[Tensor]) -> list[Moments | LateMoments]:
        """Moments of tensors on this device, in order; one launch for each dtype among them."""
        results: list[Moments | LateMoments] = [EMPTY] * len(tensors)
        if _capturing(self.device):
            return [Moments(x.numel(), None, None, None, None, None, None, None) for x in tensors]
        groups: dict[torch.dtype, list[tuple[int, Tensor]]] = {}
        for i, x in enumerate(tensors):
            flat = flat_of(x)
            if flat.numel():
                groups.setdefault(flat.dtype, []).append((i, flat))
        for members in groups.values():
            page = self._room(len(members))
            rows = page.take(len(members))
            self._fill([flat for _, flat in members], page, rows)
            for (i, flat), row in zip(members, rows, strict=True):
                results[i] = LateMoments(page, row, flat.numel())
        return results

    def scalar(self, value: Tensor) -> Late | None:
        """A number on this device, known when the step's page has arrived. None while a CUDA graph is captured."""
        if _capturing(self.device):
            return None
        page = self._room(1)
        (row,) = page.take(1)
        page.rows[row, 0].copy_(value.detach().reshape(()), non_blocking=True)
        return Late(lambda: page.scalar(row))

    def seal(self) -> list[Page]:
        """End of the step: seal the pages in use; they come back through ``reuse`` when their rows are read."""
        pages, self._full = self._full, []
        if self._page is not None:
            pages.append(self._page)
            self._page = None
        for page in pages:
            page.seal()
        return pages

    def reuse(self, page: Page) -> None:
        """A page whose rows have been read."""
        page.reuse()
        self._free.append(page)

    def _room(self, count: int) -> Page:
        if self._page is not None and self._page.used + count > _PAGE:
            self._full.append(self._page)
            self._page = None
        if self._page is None:
            self._page = self._free.pop() if self._free else Page(self.device)
        return self._page

    def _fill(self, flats: list[Tensor], page: Page, rows: list[int]) -> None:
        if self._kernel is None or flats[0].dtype not in self._kernel.DTYPES:
            for flat, row in zip(flats, rows, strict=True):
                page.rows[row].copy_(moments_row(flat), non_blocking=True)
            return
        key = tuple(flat.numel() for flat in flats)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _CACHED_PLANS:
                self._plans.pop(next(iter(self._plans)))
            plan = self._plans[key] = self._kernel.Plan(key, self.device)
        first = rows[0]
        self._kernel.launch(flats, plan, page.rows[first : first + len(rows)])

    def _load_kernel(self) -> Any:
        if self.device.type != "cuda":
            self.why_not_fused = f"no fused kernel for {self.device.type}"
            return None
        try:
            from . import triton_kernel as device_kernel  # noqa: PLC0415 — needs triton, which comes with torch for CUDA
        except ImportError as e:
            self.why_not_fused = f"triton cannot be imported ({e}); torch's own operators are used"
            return None
        return device_kernel


def flat_of(x: Tensor) -> Tensor:
    """All elements as a dense vector, in whatever order; a view wherever the elements lie without gaps."""
    x = x.detach()
    if x.layout is not torch.strided:
        x = x.coalesce().values() if x.layout is torch.sparse_coo else x.values()
    if x.is_complex():
        x = torch.view_as_real(x)
    if x.dtype is torch.bool:
        x = x.to(torch.uint8)
    if x.dtype.is_floating_point and x.dtype.itemsize == 1:
        x = x.float()  # float8 has no operators of its own
    if not x.is_contiguous():
        order = sorted(range(x.dim()), key=lambda d: -x.stride(d))
        x = x.permute(order)  # transposed memory is dense in another order of its dimensions
    return x.reshape(-1).contiguous()


def moments_row(flat: Tensor) -> Tensor:
    """The same row by torch's operators: nan, inf, zero, min, max, sum, sum of squares, 1. Launches only."""
    x = flat.to(torch.float64)
    finite = torch.isfinite(x)
    kept = torch.where(finite, x, 0.0)
    return torch.stack(
        [
            torch.isnan(x).sum().double(),
            torch.isinf(x).sum().double(),
            ((x == 0) & finite).sum().double(),
            torch.where(finite, x, torch.inf).amin(),
            torch.where(finite, x, -torch.inf).amax(),
            kept.sum(),
            torch.dot(kept, kept),
            torch.ones((), dtype=torch.float64, device=x.device),
        ]
    )


def _capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is being captured: what is launched now would become part of it."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


_of_device: dict[torch.device, DeviceStatistics] = {}


def stats_of_device(device: torch.device) -> DeviceStatistics:
    """The pages of a device."""
    found = _of_device.get(device)
    if found is None:
        found = _of_device[device] = DeviceStatistics(device)
    return found


def all_devices() -> list[DeviceStatistics]:
    """Every device that something was measured on."""
    return list(_of_device.values())
