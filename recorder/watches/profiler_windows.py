"""Short windows of torch.profiler, chosen so that all of them together stay below one percent of the run.

A window is one step: it opens when an iteration is over and closes when the next one is. While it is open global
hooks mark the calls of modules in the trace, and the recorder marks its own work; outside windows they do nothing. The
trace is saved as the profiler writes it, beside a small file that says what the window was; the supervisor makes rows of
`profiler_events` from both (profiler_files.py).

The script's own profiler goes first: once it makes one, an open window is closed and no other is opened. Nor is any inside the
capture of a CUDA graph. ``auto`` leaves trainings on a CUDA device alone, because starting CUPTI there costs more than the
budget of a short run; windows that are asked for are taken.
"""

import contextlib
import functools
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter_ns, time_ns
from typing import Any

import msgspec
import torch
import torch.optim.optimizer as optim
from torch import nn
from torch.compiler import is_compiling

from ...schemas.files.layout import profile_path
from ..base.options import ProfilePlan, profile_plan
from ..loop.forward import ForwardWatch
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..storage.profiler_traces import MODULE_MARK, OPTIMIZER_MARK, RECORDER_MARK, WindowFacts
from ..tensors.band import Band

SHARE = 0.01
"""Of the run that all windows together may take with ``auto``."""

WARM_UP = 5
"""Steps before the first window: compilation, autotuning and the filling of caches are not what a step is like."""

EVENTS_PER_NODE = 16
NS_PER_EVENT = 12_000
"""What an event costs: recording, collecting and saving it (10 to 11 µs measured with torch 2.13), rounded up."""

_NS_PER_BYTE = 40
"""Of a trace: what the supervisor takes to make rows of it, on a machine that has no core to spare."""

_PLAIN = 15
_FIXED_NS = 10_000_000
"""Of the first window: the profiler sets itself up."""

_LEAST_DISTANCE = 20
_SPARSER = 32
"""Windows come at distances of at least 1/32 of the steps so far: some dozen in a short run, some hundred in any."""

_AFTER_STALL = 5
_AFTERMATH = 5
"""Steps after a window in which its trace is made into rows beside the training: what they take longer is its price, too."""
_MOST_EVENTS = 400_000
"""A step with more events is not profiled again: 3 KB of memory each."""

_profiler_enabled: Callable[[], bool] | None = getattr(torch._C._autograd, "_profiler_enabled", None)  # pyright: ignore[reportAttributeAccessIssue]
_enable_ranges: Callable[[bool], None] | None = getattr(torch._C._autograd, "_enable_record_function", None)  # pyright: ignore[reportAttributeAccessIssue]
_Mark: Any = getattr(torch._C._profiler, "_RecordFunctionFast", None)  # pyright: ignore[reportAttributeAccessIssue]
"""Private to torch (2.13 has them all): without one of them nothing is profiled, and an event says so."""

_OPTIMIZER = -1
"""Stands for an optimizer's step among the marks of modules."""


class ProfilerWatch(Watch):
    """Opens and closes windows at the ends of steps."""

    name = "profiler"
    writes = ("profiler_events", "events:profiled", "events:profile-left-out")

    def __init__(self, session: Session, forward: ForwardWatch) -> None:
        super().__init__(session)
        self.forward = forward
        self._plan: ProfilePlan = profile_plan(session.options.profile)
        self._profile: Any = None
        self._own = False
        """Whether it is this watch that is making a profiler."""
        self._window = session.attempt.first_part
        self._steps: list[tuple[int, int]] = []
        self._began_ns = 0
        self._opened = self._open_ns = 0
        self._spent_ns = 0
        self._predicted_ns: int | None = None
        self._aftermath = 0
        """Steps that are still to be counted with the last window."""
        self._unpaid_ns = 0.0
        """What these steps took longer than others, less what the window was charged for its trace."""
        self._started_ns = 0
        """End of the first step: what came before is not training."""
        self._last = session.attempt.first_step
        self._step_began = 0
        self._plain: deque[int] = deque(maxlen=_PLAIN)
        """What the last steps outside windows took."""
        self._band = Band(2.0, logarithmic=True)
        self._stalled = False
        self._marks: list[Any] = []
        self._marked = False
        """Whether calls of modules and optimizers are marked in the trace."""
        self._ranges = Patches()

    def listen(self, signals: Signals) -> None:
        """Look at the end of each step, where windows are asked for and torch has what they need."""
        if self._plan.kind != "off" and None in (_profiler_enabled, _enable_ranges, _Mark):
            self.session.rows.event(
                "profile-left-out", f"torch {torch.__version__} does not have what profiler windows need"
            )
            self._plan = ProfilePlan("off")
        if self._plan.kind != "off":
            signals.step_ends.connect(self.name, self._step_ends)
            signals.recording_ends.connect(self.name, self._abandon)

    def install(self, patches: Patches) -> None:
        """Watch for profilers of the script and for captures of CUDA graphs; nothing else, and nothing where off."""
        if self._plan.kind == "off":
            return
        yields = self.guarded(self._yield)
        profiler = torch.autograd.profiler
        for owner, name in (
            (profiler.profile, "__init__"),
            (profiler.emit_nvtx, "__enter__"),
            (profiler.emit_itt, "__enter__"),
            (torch.profiler.profile, "__init__"),
            (torch.cuda.CUDAGraph, "capture_begin"),
        ):
            if hasattr(owner, name):
                patches.around(owner, name, before=yields)
        # for good: a window opens or closes while torch walks over these hooks, and torch.compile would compile again
        patches.hook_modules(self._enter, self._leave)
        patches.handles(
            [
                optim.register_optimizer_step_pre_hook(self._optimizer_enter),
                optim.register_optimizer_step_post_hook(self._optimizer_leave),
            ]
        )
        patches.later(self._abandon)
        watch = weakref.ref(self)

        def before_fork() -> None:
            alive = watch()
            if alive is not None:
                alive.stop_for_fork()

        os.register_at_fork(before=before_fork)

    # -- when ---------------------------------------------------------------------------------------------------------------

    def _step_ends(self) -> None:
        """An iteration is over, all its rows of `steps` are made."""
        session, now = self.session, perf_counter_ns()
        plain_ns = now - self._step_began
        if self._profile is not None:
            self._steps.append((session.position.step, time_ns()))
            if self._plan.kind != "range" or session.position.step + 1 >= self._plan.stop:
                self._unhook()
                usual_ns = len(self._steps) * (median(self._plain) if self._plain else plain_ns)
                self._close(max(int(now - self._opened - usual_ns), 0))
        elif self._step_began:
            if self._aftermath:
                self._count_aftermath(plain_ns)
            self._plain.append(plain_ns)
            self._stalled = self._band.left_by(float(max(plain_ns, 1))) != 0 or self._stalled
        self._started_ns = self._started_ns or now
        if self._profile is None and self._due(session.position.step + 1) and self._may():
            self._open()
        self._step_began = perf_counter_ns()

    def _count_aftermath(self, plain_ns: int) -> None:
        self._aftermath -= 1
        self._unpaid_ns += plain_ns - median(self._plain) if self._plain else 0
        if not self._aftermath and self._unpaid_ns > 0:
            self._spent_ns += int(self._unpaid_ns)
            self._predicted_ns = (self._predicted_ns or 0) + int(self._unpaid_ns)

    def _due(self, step: int) -> bool:
        plan = self._plan
        since = step - self.session.attempt.first_step
        if plan.kind == "every":
            return since > 0 and since % plan.every == 0
        if plan.kind == "range":
            return step == max(plan.start, self.session.attempt.first_step + 1)
        if plan.kind == "off" or since < WARM_UP or self._aftermath or torch.cuda.is_initialized():
            return False
        distance = _AFTER_STALL if self._stalled else max(_LEAST_DISTANCE, since // _SPARSER)
        if self._predicted_ns is not None and step - self._last < distance:
            return False
        predicted = self._predicted_ns or _FIXED_NS + self.forward.nodes_of_forward * EVENTS_PER_NODE * NS_PER_EVENT
        if predicted > _MOST_EVENTS * NS_PER_EVENT:
            return False
        return self._spent_ns + predicted <= SHARE * (perf_counter_ns() - self._started_ns)

    def _may(self) -> bool:
        """Whether nobody else profiles, and no CUDA graph is being captured."""
        session = self.session
        if (
            threading.get_ident() != session.position.thread
            or session.position.in_backward
            or _profiler_enabled is None
            or _profiler_enabled()
        ):
            return False
        return not (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())

    def _yield(self, *_: Any, **__: Any) -> None:
        """The script makes a profiler of its own, or captures a graph."""
        if self._own:
            return
        self._abandon()
        if self._plan.kind != "off":
            self._plan = ProfilePlan("off")
            self.session.rows.event(
                "profile-left-out", "the script profiles or captures a graph itself: no windows from here on"
            )

    # -- a window -------------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        began = perf_counter_ns()
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._own = True
        try:
            with _quiet():
                profile = torch.profiler.profile(
                    activities=activities,
                    record_shapes=self._plan.kind != "auto",
                    # the interpreter has one place for a profile function, and torch would leave it empty
                    with_stack=self._plan.stacks and sys.getprofile() is None,
                )
                profile.start()
        finally:
            self._own = False
        self._profile = profile
        self._began_ns = time_ns()
        self._steps = []
        self._hook()
        self._opened = perf_counter_ns()
        self._open_ns = self._opened - began

    def _close(self, slower_ns: int) -> None:
        """Stop, save, and say what it was. Its steps took so much longer than others do."""
        began = perf_counter_ns()
        session, profile = self.session, self._profile
        self._profile = None
        tail_ns = time_ns() - (perf_counter_ns() - session.guard.hook_began_ns)
        profile.stop()
        window, rank = self._window, session.catalogue.rank
        self._window += 1
        path = profile_path(session.run, rank, window)
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = WindowFacts(rank=rank, window=window, steps=self._steps, began_ns=self._began_ns, tail_ns=tail_ns)
        path.with_suffix(".window").write_bytes(msgspec.json.encode(facts))
        tmp = path.with_suffix(".json.tmp")
        profile.profiler.kineto_results.save(str(tmp))
        size = tmp.stat().st_size
        Path(tmp).rename(path)
        took = perf_counter_ns() - began + self._open_ns
        self._predicted_ns = took + slower_ns + size * _NS_PER_BYTE
        self._spent_ns += self._predicted_ns
        self._aftermath, self._unpaid_ns = _AFTERMATH, -size * _NS_PER_BYTE
        self._last = session.position.step
        self._stalled = False
        first, last = self._steps[0][0], self._steps[-1][0]
        session.rows.event(
            "profiled",
            f"step {first} was profiled" if first == last else f"steps {first} to {last} were profiled",
            detail={"window": window, "first": first, "last": last, "ns": took},
        )

    def stop_for_fork(self) -> None:
        """A child process is about to be forked, such as a loader's worker: it would go on profiling itself for good."""
        if self._profile is not None:
            self.guarded(self._abandon)()

    def _abandon(self) -> None:
        """Stop without saving: what is open does not end with a step."""
        profile, self._profile = self._profile, None
        self._unhook()
        if profile is not None:
            profile.stop()

    # -- marks ----------------------------------------------------------------------------------------------------------------

    def _hook(self) -> None:
        if not self._marked:
            record_function = torch.autograd.profiler.record_function
            self._ranges = Patches()
            self._ranges.wrap(record_function, "__enter__", _inert)
            self._marked = True
            self.session.guard.mark = _recorder_mark

    def _unhook(self) -> None:
        self._marked = False
        self._ranges.undo()
        self.session.guard.mark = None
        self.session.guard.end_mark()
        while self._marks:
            self._marks.pop()[1].__exit__(None, None, None)

    def _enter(self, module: nn.Module, _args: tuple[Any, ...]) -> None:
        if not is_compiling() and self._marked and self._marking():
            entry = self.session.catalogue.by_object.get(id(module))
            if entry is not None:
                self._push(entry.id, f"{MODULE_MARK}{entry.id}")

    def _leave(self, module: nn.Module, _args: tuple[Any, ...], _output: Any) -> None:
        if not is_compiling() and self._marks and self._marking():
            entry = self.session.catalogue.by_object.get(id(module))
            if entry is not None:
                self._pop(entry.id)

    def _optimizer_enter(self, *_: Any) -> None:
        if self._marking():
            self._push(_OPTIMIZER, OPTIMIZER_MARK)

    def _optimizer_leave(self, *_: Any) -> None:
        if self._marks and self._marking():
            self._pop(_OPTIMIZER)

    def _marking(self) -> bool:
        """torch may have made its list of hooks before the window was closed."""
        return self._marked and threading.get_ident() == self.session.position.thread

    def _push(self, key: int, name: str) -> None:
        mark = _Mark(name)
        mark.__enter__()
        self._marks.append((key, mark))

    def _pop(self, key: int) -> None:
        if any(k == key for k, _ in self._marks):
            while self._marks:  # a forward that raised and was caught has left its own open
                k, mark = self._marks.pop()
                mark.__exit__(None, None, None)
                if k == key:
                    break


def _recorder_mark() -> Any:
    return _Mark(RECORDER_MARK)


@contextlib.contextmanager
def _quiet() -> Any:
    """Kineto writes a line to stderr whenever it starts or stops, unless it was told not to when it was set up."""
    before = os.environ.get("KINETO_LOG_LEVEL")
    if before is None:
        os.environ["KINETO_LOG_LEVEL"] = "99"
    try:
        yield
    finally:
        if before is None:
            del os.environ["KINETO_LOG_LEVEL"]


def _inert(original: Callable[..., Any]) -> Callable[..., Any]:
    """A range that the script, or torch, begins in a window without being recorded: torch writes to the memory of the profiler
    under which a range began when it ends under another one, and nobody knows when it will."""

    @functools.wraps(original)
    def enter(self: Any) -> Any:
        if _enable_ranges is None:
            return original(self)
        _enable_ranges(False)
        try:
            return original(self)
        finally:
            _enable_ranges(True)

    return enter
