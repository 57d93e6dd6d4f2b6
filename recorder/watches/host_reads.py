"""Where the script reads single numbers out of tensors: ``item()``, ``tolist()``, ``if t:``. Not ``float(t)`` and
``int(t)``: their warning about gradients would name this file instead of the script's line.

On a device each of them waits until everything before it is computed; on the CPU each costs about as much as the arithmetic
of a thousand elements. Reads by torch itself and by the recorder are not the script's and are not counted, nor are those of a
data set while a loader of torch makes a batch of it: what that takes is the wait for the batch.

A loop of reads is recognised by its rhythm: the same line reads again within a millisecond, and no module was called in
between. The time from leaving one such read to the end of the next is what the loop takes: nearly all of the counting lies
outside of it, and the rest is measured on reads of the recorder's own and taken off. A loop over a tensor takes it apart
before the first read (``Tensor.__iter__``): that belongs to it. Where a step reads very many numbers only every eighth step
is counted.
"""

import functools
import statistics
import sys
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from types import CodeType
from typing import Any

import torch

from ...schemas import Phase
from ..loop.forward import ForwardWatch
from ..script.frames import Place, script_place
from ..script.signal_handlers import raised_by_signal_handler
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from .eval_losses import PART as EVAL_LOSSES
from .eval_losses import EvalLosses

_METHODS = ("item", "tolist", "__bool__")
_EVAL, _FORWARD = Phase.EVAL, Phase.FORWARD

_LEAST = 8
"""Reads of one line in one step that are worth a row."""

_MANY = 256
"""Reads in a step beyond which not every step is counted."""

_FIRST_STEPS = 12
_COUNT_EVERY = 8
_SAME_LOOP_NS = 1_000_000
_MOST_PLACES = 1000

_TRIALS = 3
_TRIAL_READS = 16


class _Reads:
    """What one line of the script has read in the step in work."""

    __slots__ = (
        "after_step",
        "calls",
        "calls_ended",
        "device",
        "left",
        "loop_ns",
        "looped",
        "place",
        "spread_ns",
        "wait_ns",
    )

    def __init__(self, place: Place) -> None:
        self.place = place
        self.calls = 0
        self.looped = 0
        self.loop_ns = 0
        self.spread_ns = 0
        """What taking tensors apart took before the loops over them."""
        self.wait_ns = 0
        self.left = 0
        """When the last read was left, in ns of the clock."""
        self.calls_ended = 0
        self.after_step = False
        self.device = ""


def _counted_loop(number: torch.Tensor) -> int:
    began = perf_counter_ns()
    for _ in range(_TRIAL_READS):
        number.item()
    return perf_counter_ns() - began


def _plain_loop(number: torch.Tensor, item: Callable[[torch.Tensor], Any]) -> int:
    began = perf_counter_ns()
    for _ in range(_TRIAL_READS):
        item(number)
    return perf_counter_ns() - began


class HostReads(Watch):
    """Fills `host_reads` and column host_reads of `steps`, and `metrics` with losses of evaluations."""

    name = "host-reads"
    writes = ("host_reads", "steps.host_reads", "metrics:read")

    def __init__(self, session: Session, forward: ForwardWatch) -> None:
        super().__init__(session)
        self.forward = forward
        self.eval_losses = EvalLosses(session)
        self._places: dict[tuple[int, int], _Reads | None] = {}
        """By the id of the code and the instruction in it: the hash of a code object takes longer the longer the function."""
        self._codes: dict[int, CodeType] = {}
        """Keeps the codes alive whose ids are keys."""
        self._touched: list[_Reads] = []
        self._counting = False
        self._many_since: int | None = None
        """Step in which very many were read first."""
        self._finished_step = -1
        self._spread_ns = 0
        self._spread_at = 0
        self._left = 0
        """When the last read at any place was left."""
        own = (self._note_read, self._begin, self._take_spread, self._same_module, self._new)
        self._own_codes: list[CodeType] = [function.__func__.__code__ for function in own]
        self._plain_item = torch.Tensor.item
        self._number = torch.zeros((), dtype=torch.int64)
        self._trial = _Reads(Place(_counted_loop.__code__, 0))
        self._added: deque[int] = deque(maxlen=5 * _TRIALS)
        self._within: deque[int] = deque(maxlen=5 * _TRIALS)

    def listen(self, signals: Signals) -> None:
        """Write what was read in each step."""
        self.eval_losses.listen(signals)
        signals.row_ends.connect(self.name, self._write_reads)

    def install(self, patches: Patches) -> None:
        """Wrap the methods. torch.compile knows them by name and never looks into a wrapper; where it runs beside the
        script's own frames it is told to leave the wrappers, and what they call, alone."""
        for name in _METHODS:
            patches.wrap(torch.Tensor, name, functools.partial(self._wrapper, name == "item"), rests=True)
        patches.wrap(torch.Tensor, "__iter__", self._spreader, rests=True)
        patches.after_import("torch._dynamo.eval_frame", self._hide)

    def _wrapper(self, single: bool, original: Callable[..., Any]) -> Callable[..., Any]:
        places, position, guard = self._places, self.session.position, self.session.guard
        evaluated = guard.guarded(EVAL_LOSSES, self.eval_losses.read)

        def read(self_: Any) -> Any:
            if not self._counting or position.loading or position.unwatched:
                result = original(self_)
                if single and position.phase is _EVAL and type(result) is float and not self_.requires_grad:
                    evaluated(sys._getframe(1), result)
                return result
            began = perf_counter_ns()
            result = original(self_)
            ended = perf_counter_ns()
            frame = sys._getframe(1)
            if single and position.phase is _EVAL and type(result) is float and not self_.requires_grad:
                evaluated(frame, result)
            key = (id(frame.f_code), frame.f_lasti)
            if places.get(key, frame) is not None:  # None: known, and not the script's
                try:  # the session's guard would take as long as all the rest
                    self._note_read(key, frame, self_, began, ended)
                except Exception as e:
                    if raised_by_signal_handler(e):
                        raise
                    self._counting = False
                    guard.fault(self.name, e)
            return result

        self._own_codes.append(read.__code__)
        return functools.wraps(original)(read)

    def _spreader(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def spread(self_: Any) -> Any:
            if (
                torch.compiler.is_compiling() or not self._counting
            ):  # torch.compile traces it: nothing of the recorder in a graph
                return original(self_)
            began = perf_counter_ns()
            numbers = original(self_)
            self._spread_at = perf_counter_ns()
            self._spread_ns = self._spread_at - began
            return numbers

        self._own_codes.append(spread.__code__)
        return functools.wraps(original)(spread)

    def _hide(self, dynamo: Any) -> None:
        for code in self._own_codes if hasattr(dynamo, "skip_code") else ():
            dynamo.skip_code(code)

    def _note_read(self, key: tuple[int, int], frame: Any, tensor: torch.Tensor, began: int, ended: int) -> None:
        reads = self._places.get(key)
        if reads is None:
            reads = self._new(key, frame)
            if reads is None:
                return
        if self.session.position.phase is _FORWARD:
            self.forward.quiet.allowed = False  # from here on, the calls of modules between two reads must be seen
        if not reads.calls:
            self._begin(reads, tensor)
            self._take_spread(reads, began)
        elif ended - reads.left < _SAME_LOOP_NS and self._same_module(reads):
            reads.loop_ns += ended - max(reads.left, self._left)  # what two reads of one loop share counts once
            reads.looped += 1
        else:
            reads.calls_ended = self.forward.calls_ended
            self._take_spread(reads, began)
        reads.calls += 1
        reads.wait_ns += ended - began
        reads.left = self._left = perf_counter_ns()

    def _take_spread(self, reads: _Reads, began: int) -> None:
        if self._spread_ns and began - self._spread_at < _SAME_LOOP_NS:
            reads.spread_ns += self._spread_ns
        self._spread_ns = 0

    def _same_module(self, reads: _Reads) -> bool:
        return reads.calls_ended == self.forward.calls_ended and not self.forward.quiet.active

    def _new(self, key: tuple[int, int], frame: Any) -> _Reads | None:
        code = frame.f_code
        self._codes[key[0]] = code
        place = script_place(frame)
        known = None
        if code is _counted_loop.__code__:
            known = self._trial
        elif place is not None and place.code is code and len(self._places) < _MOST_PLACES:
            known = _Reads(place)
        self._places[key] = known
        return known

    def _begin(self, reads: _Reads, tensor: torch.Tensor) -> None:
        position, step_row = self.session.position, self.session.step_row
        self._touched.append(reads)
        reads.device = tensor.device.type
        reads.calls_ended = self.forward.calls_ended
        # what is read after optimizer.step(), before anything else, still belongs to that iteration
        reads.after_step = (
            not step_row.calls and not step_row.clock["data"] and self._finished_step == position.step - 1
        )

    def _own_cost(self) -> tuple[int, int]:
        """What counting adds to a read in a loop, in ns: all of it, and the part that `loop_ns` holds. Both are medians of
        short loops of the recorder's own, counted and not."""
        trial = self._trial
        for _ in range(_TRIALS):
            trial.calls, trial.looped, trial.loop_ns, trial.calls_ended = 1, 0, 0, self.forward.calls_ended
            trial.left = 0  # the first read begins a loop
            counted = _counted_loop(self._number)
            plain = _plain_loop(self._number, self._plain_item)
            self._added.append((counted - plain) // _TRIAL_READS)
            if trial.looped:
                self._within.append(trial.loop_ns // trial.looped - plain // _TRIAL_READS)
        return max(int(statistics.median(self._added)), 0), max(int(statistics.median(self._within or (0,))), 0)

    def _write_reads(self) -> None:
        session = self.session
        step = session.position.step
        self._finished_step = step
        touched, self._touched = self._touched, []
        total = sum(reads.calls for reads in touched)
        added_ns, within_ns = self._own_cost() if any(reads.looped >= _LEAST for reads in touched) else (0, 0)
        session.guard.recorder_ns += added_ns * total
        for reads in touched:
            if reads.calls >= _LEAST:
                where, text = reads.place.words()
                looped = reads.looped
                session.rows.add(
                    "host_reads",
                    step=step - reads.after_step,
                    after_step=reads.after_step,
                    place=where,
                    code=text,
                    device=reads.device,
                    reads=reads.calls,
                    # the first read of a loop has none before it
                    loop_ns=max(reads.loop_ns // looped - within_ns, 0) * (looped + 1) + reads.spread_ns
                    if looped
                    else 0,
                    wait_ns=reads.wait_ns,
                )
            reads.calls = reads.looped = reads.loop_ns = reads.spread_ns = reads.wait_ns = 0
        if self._counting:
            session.step_row.facts["host_reads"] = total
            if self._many_since is None and total >= _MANY:
                self._many_since = step
        since = 0 if self._many_since is None else step + 1 - self._many_since
        self._counting = since < _FIRST_STEPS or since % _COUNT_EVERY == 0
