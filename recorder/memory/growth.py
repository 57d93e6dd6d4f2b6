"""Growth of memory, and who owns it: looked for only once something grows.

Two signs are watched at every step, a few comparisons each: memory of the process (or of the device) that rises through a
window of 12 to 192 steps, and graphs or outputs of earlier steps that gather. At a sign the watch looks at all containers and
tensors, and again four steps later; what became longer in between is named: by whom it is held, which line adds to it, since
when. It is followed at ever longer distances as long as it grows. A run in which nothing grows pays for no look.
"""

import gc
from collections import deque
from collections.abc import Callable, Iterable
from statistics import median
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor, nn

from ...schemas.files.step_values import Row
from ..loop.batches import DataWatch
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import measurable, node_of
from .blocks import block_rows, categories
from .containers import Content, Grown, Look, classes_grown, grown, look
from .cuda_history import CudaMemory
from .growing_tensors import GrownTensor, TensorLook, grown_tensors, look_at_tensors, most_more
from .held_outputs import HeldActivations, HeldOutputs
from .owners import OURS, Holder, holders_of
from .tensor_census import tensor_classes

_FIRST = 4
"""Steps at the start in which allocators fill."""

_WINDOWS = (12, 24, 48, 96, 192)
_RISE = 12 * 2**20
"""Bytes that memory must have risen over a window: a steady rise of less is told by a longer one."""

_STEADY = 0.5
"""Of the rise from the first to the second third of a window, the least that the next third must bring: what fills while a
run warms up rises ever more slowly."""

_NOISE = 3.0
"""Times the scatter within a third of a window by which the next third must lie higher: allocators come and go."""

_KEPT = 5
"""Graphs or outputs of earlier steps that gather."""

_SIGNS = ("DefaultCPUAllocator", "out of memory")
"""In the messages of exceptions that have no type of their own."""

_MORE_FILES = 64
"""Descriptors more than at first that are looked into: a few loaders open and close as many."""

_MANY = 100
"""Objects of one class, more at each step, that are worth a word where no container is found."""

_NUMBERS = frozenset({"int", "float", "str", "bool", "NoneType"})

_APART = 4
"""Steps between the first two looks."""

_SHARE = 0.01
_FREE = 4
"""Looks that are free; later ones take at most that share of the time."""

_REST = 24
"""Steps without a look after two that found nothing; doubled each time."""


class GrowthWatch(Watch):
    """Fills `memory_owners`, and `memory_blocks` where something grows."""

    name = "memory-growth"
    writes = ("memory_owners", "memory_blocks", "events:memory-not-looked-at")
    uses = ("graphs", "outputs", "held-activations", "live-tensors", "open-files", "memory-history")

    def __init__(
        self,
        session: Session,
        data: DataWatch,
        optimizers: Callable[[], list[torch.optim.Optimizer]],
        outputs: HeldOutputs,
        activations: HeldActivations,
        cuda: CudaMemory,
    ) -> None:
        super().__init__(session)
        self._data = data
        self._optimizers = optimizers
        self._outputs = outputs
        self._activations = activations
        self._cuda = cuda
        self._memory: deque[int] = deque(maxlen=_WINDOWS[-1])
        self._device: deque[int] = deque(maxlen=_WINDOWS[-1])
        self._kept: deque[int] = deque(maxlen=_APART)
        self._files: deque[int] = deque(maxlen=3)
        self._files_at_first: int | None = None
        self._step = -1
        self._steps = 0
        self._before: tuple[Look, TensorLook] | None = None
        self._due: int | None = None
        """Step at which the next look is to be; None: when there is a sign."""
        self._apart = _APART
        self._rest = _REST
        self._quiet_until = 0
        self._looks = 0
        self._spent = 0
        self._began = perf_counter_ns()
        self._made: dict[int, tuple[int | None, int | None]] = {}
        """Storage → step in which a module put it out, and the module, as of the last look."""

    def listen(self, signals: Signals) -> None:
        """Look for signs in each row of `steps`, once more at the end, and when memory has run out."""
        signals.row_ends.connect(self.name, self._each_step)
        signals.recording_ends.connect(self.name, self._end)
        signals.exception.connect(self.name, self._exception)

    # -- signs --------------------------------------------------------------------------------------------------------------

    def _each_step(self) -> None:
        session = self.session
        if session.position.step == self._step:
            return  # another optimizer of the same iteration
        self._step = session.position.step
        self._steps += 1
        facts = session.step_row.facts
        if (memory := facts.get("anonymous_bytes")) is not None and self._steps > _FIRST:
            self._memory.append(memory)
        self._kept.append(
            max(
                facts.get("graphs_alive") or 0,
                facts.get("outputs_alive") or 0,
                facts.get("output_graphs_alive") or 0,
                facts.get("forward_graphs_alive") or 0,
                self._activations.most_kept,
            )
        )
        if (files := facts.get("open_files")) is not None:
            self._files.append(files)
            self._files_at_first = files if self._files_at_first is None else self._files_at_first
        if self._due is None:
            if session.position.step >= self._quiet_until and self._sign() and self._affordable():
                self._take(first=True)
        elif session.position.step >= self._due:
            if self._affordable():
                self._take(first=False)
            else:
                self._due += self._apart

    def _sign(self) -> bool:
        kept = self._kept
        if kept[-1] >= _KEPT and kept[-1] > kept[0]:
            return True
        if self._more_files():
            return True
        if self._steps <= _FIRST + _WINDOWS[0] or self._steps % 4:
            return False
        if torch.cuda.is_initialized():
            self._device.append(torch.cuda.memory_allocated())
        return _rises(self._memory) or _rises(self._device)

    def _more_files(self) -> bool:
        files = self._files
        return (
            len(files) == files.maxlen
            and files[0] < files[1] < files[2]
            and files[2] >= (self._files_at_first or 0) + _MORE_FILES
        )

    def _affordable(self) -> bool:
        """The first looks are free; later ones, dear or many, take at most a share of the run's time."""
        if self._looks < _FREE:
            return True
        price = self._spent // self._looks
        return self._spent + price <= _SHARE * (perf_counter_ns() - self._began)

    # -- looks --------------------------------------------------------------------------------------------------------------

    def _take(self, *, first: bool) -> None:
        began = perf_counter_ns()
        step = self.session.position.step
        found = self._measure_growth(first=first)
        self._looks += 1
        self._spent += perf_counter_ns() - began
        if first:
            self._apart, self._due = _APART, step + _APART
        elif found:
            self._apart *= 2
            self._due = step + self._apart
        else:
            self._before, self._due = None, None
            self._quiet_until = step + self._rest
            self._rest *= 2

    def _measure_growth(self, *, first: bool) -> bool:
        session = self.session
        now, containers, tensors = look(session.position.step, tensor_classes())
        tensor_look = look_at_tensors(session.position.step, tensors)
        before, self._before = self._before, (now, tensor_look)
        if first or before is None:
            return False
        known = categories(session.catalogue, self._optimizers(), self._data.alive_fields().values())
        weights = frozenset(k for k, category in known.items() if category in {"parameter", "buffer"})
        longer = grown(before[0], now, containers, weights)
        del containers
        self._made = self._makers()
        rows = self._container_rows(longer)
        del longer
        rows += self._tensor_rows(grown_tensors(before[1], tensor_look, tensors), tensors)
        if not rows and (one := most_more(before[1], tensor_look, tensors)) is not None:
            rows += self._tensor_rows([one], tensors, "tensors")
        if not rows and (most := classes_grown(before[0], now, _MANY * (now.step - before[0].step))) is not None:
            rows.append(self._class_row(*most, before[0], now))
        for row in rows:
            session.rows.add("memory_owners", **row)
        if rows:
            self._blocks("growth", tensors, known)
            self._cuda.take("growth")
        return bool(rows)

    def _blocks(self, trigger: str, tensors: list[Tensor], known: dict[int, str]) -> None:
        for row in block_rows(tensors, known, self._made):
            self.session.rows.add("memory_blocks", trigger=trigger, **row)

    def _container_rows(self, longer: list[Grown]) -> list[Row]:
        containers = [g.container for g in longer]
        numbers = [g.content.what in _NUMBERS for g in longer]
        named = holders_of(containers, [g.kind for g in longer], numbers, _is_module, [longer, *longer])
        rows: list[Row] = []
        for g, holder in zip(longer, named, strict=True):
            if holder is not OURS and (holder is not None or g.content.what not in _NUMBERS):
                rows.append(self._row(g.kind, holder, g.length, g.rate, g.content))
                rows[-1]["bytes_each"] = g.content.size
        return rows

    def _tensor_rows(self, longer: list[GrownTensor], tensors: list[Tensor], kind: str = "longer") -> list[Row]:
        targets = [g.tensor for g in longer]
        kinds, numbers = ["sum"] * len(longer), [False] * len(longer)
        named = holders_of(targets, kinds, numbers, _is_module, [tensors, longer, *longer])
        rows: list[Row] = []
        for g, holder in zip(longer, named, strict=True):
            if holder is not OURS:
                content = Content("tensor", g.size, g.tensor, g.operator is not None)
                content = content._replace(with_graph=node_of(g.tensor) is not None)
                rows.append(self._row(kind if g.operator is None else "sum", holder, g.steps, g.rate, content))
                rows[-1]["bytes_each"] = round(g.size / g.rate)
        return rows

    def _class_row(self, kind: type, count: int, before: Look, now: Look) -> Row:
        steps = max(now.step - before.step, 1)
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.").removeprefix("__main__.")
        return {
            "kind": "class",
            "element": name,
            "with_graph": False,
            "length": now.classes[kind],
            "rate": count / steps,
        }

    def _row(self, kind: str, holder: Holder | None, length: int, rate: float, content: Content) -> Row:
        tensor = content.tensor
        row: Row = {
            "kind": kind,
            "element": content.what,
            "with_graph": content.with_graph,
            "shared": content.shared,
            "length": length,
            "rate": rate,
            # the first element came with this step or, where the statement is still to come, with the one before
            "since_step": max(
                self.session.position.step - round(length / rate) + (0 if holder and holder.later else 1), 0
            ),
        }
        if tensor is not None:
            row |= {
                "shape": list(tensor.shape),
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "device": str(tensor.device),
                "module_id": self._made_by(tensor),
            }
        if holder is not None:
            row |= {
                "holder": holder.name,
                "scope": holder.scope,
                "place": holder.place,
                "expression": holder.expression,
            }
            if holder.module is not None and (entry := self.session.catalogue.by_object.get(holder.module)) is not None:
                row["module_id"] = entry.id
        return row

    def _made_by(self, tensor: Tensor) -> int | None:
        measured = measurable(tensor) and tensor.layout is torch.strided
        return self._made.get(tensor.untyped_storage()._cdata, (0, None))[1] if measured else None

    def _exception(self, error: BaseException) -> None:
        """Memory has run out: what is in it now, and what had grown until now."""
        if not (
            isinstance(error, MemoryError | torch.OutOfMemoryError)
            or (isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS))
        ):
            return
        try:
            self._look_at_the_end()
        except MemoryError:
            self.session.rows.event(
                "memory-not-looked-at", "memory was so short that what is in it could not be looked at"
            )
        self._cuda.take("oom")

    def _look_at_the_end(self) -> None:
        if self._before is not None and self.session.position.step > self._before[0].step:
            self._measure_growth(first=False)
        classes = tensor_classes()
        tensors = [o for o in gc.get_objects() if type(o) in classes]
        known = categories(self.session.catalogue, self._optimizers(), self._data.alive_fields().values())
        self._made = self._makers()
        self._blocks("oom", tensors, known)

    def _makers(self) -> dict[int, tuple[int | None, int | None]]:
        return {**{k: (step, None) for k, step in self._outputs.living().items()}, **self._activations.living()}

    def _end(self) -> None:
        """The run is over: a look that was due may still find what the script holds."""
        if self._before is not None and self.session.position.step - self._before[0].step >= _APART:
            self._measure_growth(first=False)


def _is_module(value: Any) -> bool:
    return isinstance(value, nn.Module)


def _rises(memory: Iterable[int]) -> bool:
    """Whether memory has risen through all three parts of a window, enough, and by more than it scatters within them."""
    values = list(memory)[-_WINDOWS[-1] :]
    return any(_rises_within(values[-window:]) for window in _WINDOWS if len(values) >= window)


def _rises_within(values: list[int]) -> bool:
    third = len(values) // 3
    parts = [values[n * third : (n + 1) * third] for n in range(3)]
    a, b, c = (median(part) for part in parts)
    if c - a < _RISE or b - a < 0.25 * (c - b) or c - b < _STEADY * (b - a):
        return False
    # of a straight rise half a third's gain is scatter too
    scatter = max(median(abs(v - median(part)) for v in part) - (c - a) / 8 for part in parts)
    return min(b - a, c - b) >= _NOISE * scatter
