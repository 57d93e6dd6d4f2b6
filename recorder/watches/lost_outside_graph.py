"""Which operator loses numbers that a loss is multiplied by, where no graph holds it: a weight of samples, an advantage.

What the script computes without gradients leaves no trace behind. But after two losses that are not finite the run is lost
already, and the same code runs again in its next steps. From then on each function of torch is looked at, between one
optimizer step and the next, until one makes a lost number of finite ones. Nothing is looked at in a run that is sound.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from math import isfinite
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor, overrides

from ..script.frames import Place, script_place
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import Moments, measurable

_IN_A_ROW = 2
"""Losses that must be lost before anything is looked at: then the weights are lost too."""

_MOST_ITERATIONS = 400
"""In which it looks."""

_MOST_NS = 300_000_000
_MOST_SHARE = 0.04
"""Of looking: so much at once, and beyond it of the time since. A lost run is to be no slower than a sound one by a tenth."""

_CALL_NS = 5_000
"""What a mode takes of each function of torch by itself: a call of Python, and torch's way round through it."""

_MOST_PLACES = 4
"""A metric may divide by zero each time, beside what loses the loss."""

_LARGEST = 1 << 16
"""Elements of a result up to which it is looked at: weights of samples are few."""

_DIVISIONS = {"div", "true_divide", "divide", "__truediv__", "__rtruediv__", "__itruediv__", "div_"}
_TURNED_ROUND = {"__rtruediv__"}
"""The first operand is the denominator."""


class LostOutsideGraph(Watch):
    """Writes an event for each of the first lines that lose numbers outside any graph, in the steps after a lost loss."""

    name = "lost-outside-graph"
    writes = ("events:lost-outside-graph",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._look: _Look | None = None
        self._iterations = 0
        self._since = 0
        """When the losses were found to be lost, in ns."""
        self._in_a_row = 0
        """Losses that were lost, up to the last one: after a step that a GradScaler leaves out the next one is sound."""

    def listen(self, signals: Signals) -> None:
        """Begin behind losses that are lost, look in each iteration, and be gone before the optimizer steps."""
        signals.loss_measured.connect(self.name, self._lost)
        signals.step_ends.connect(self.name, self._begin)
        signals.step_begins.connect(self.name, self._end)
        signals.looks_away.connect(self.name, self._end)
        signals.exception.connect(self.name, self._end)
        signals.recording_ends.connect(self.name, self._end)

    def _lost(self, moments: Moments) -> None:
        self._in_a_row = self._in_a_row + 1 if moments.nonfinite else 0
        if self._in_a_row == _IN_A_ROW and self._look is None and not _compiled_code():
            self._look = _Look(partial(self.session.guard.fault, self.name))
            self._since = perf_counter_ns()

    def _begin(self) -> None:
        look = self._look
        if look is None or not look.wanted or self._in_a_row < _IN_A_ROW or self._iterations >= _MOST_ITERATIONS:
            return
        look.most_ns = int(_MOST_NS + _MOST_SHARE * (perf_counter_ns() - self._since))
        if look.taken_ns() > look.most_ns:
            return
        if (
            look not in _modes() and not _modes()
        ):  # a mode of the script's own that ends first would end ours in its place
            self._iterations += 1
            look.__enter__()

    def _end(self, _: object = None) -> None:
        look = self._look
        if look is None:
            return
        _take_out(look)
        for found in look.take():
            self.session.rows.event(
                "lost-outside-graph",
                f"{found['op']} at {found['source']} lost numbers outside any graph: {found['nan_count']} NaN, "
                f"{found['inf_count']} infinite of {found['numel']}",
                detail=found,
            )


def _compiled_code() -> bool:
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["frames"])


def _modes() -> list[Any]:
    return overrides._get_current_function_mode_stack()


def _take_out(mode: Any) -> None:
    """Out of the stack of modes, wherever it is by now."""
    above: list[Any] = []
    if mode in _modes():
        while (top := overrides._pop_mode()) is not mode:
            above.append(top)
        for one in reversed(above):
            overrides._push_mode(one)


class _Look(overrides.TorchFunctionMode):
    """Looks at what functions of torch give, until one gives a lost number for finite ones."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        super().__init__()
        self._failed = failed
        self.wanted = True
        self._places: set[Place] = set()
        self._found: list[dict[str, object]] = []
        self.most_ns = 0
        """What looking may have taken by the end of this iteration, which may be long: it holds an evaluation, or a rollout."""
        self._spent = self._calls = 0
        self._process = os.getpid()

    def taken_ns(self) -> int:
        """Time that looking has taken so far."""
        return self._spent + self._calls * _CALL_NS

    def take(self) -> list[dict[str, object]]:
        """What was found since it was last asked."""
        found, self._found = self._found, []
        return found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Part of torch's protocol: run one function."""
        del types
        result = func(*args, **(kwargs or {}))
        self._calls += 1
        if self.wanted and isinstance(result, Tensor) and self.taken_ns() <= self.most_ns:
            began = perf_counter_ns()
            try:
                self._look_at(func, args, kwargs or {}, result)
            except Exception as e:  # noqa: BLE001 - whatever is wrong with the watch, the training goes on
                self.wanted = False
                self._failed(e)
            self._spent += perf_counter_ns() - began
        return result

    def _look_at(self, func: Any, args: Any, kwargs: Any, result: Tensor) -> None:
        if os.getpid() != self._process:
            self.wanted = False  # a worker that was forked meanwhile
            return
        if not _can_be_read(result) or result.requires_grad or bool(torch.isfinite(result).all()):
            return
        operands = [*args, *kwargs.values()]
        name = getattr(func, "__name__", str(func))
        place = script_place(sys._getframe(2))
        if place is None or place in self._places or "empty" in name or not all(_finite(o) for o in operands):
            return
        self._places.add(place)
        self.wanted = len(self._places) < _MOST_PLACES
        source, code = place.words()
        denominator = operands[0 if name in _TURNED_ROUND else 1] if name in _DIVISIONS and len(operands) > 1 else None
        found: dict[str, object] = {
            "op": name.strip("_"),
            "source": source,
            "code": code,
            "shape": list(result.shape),
            "numel": result.numel(),
            "nan_count": int(torch.isnan(result).sum()),
            "inf_count": int(torch.isinf(result).sum()),
            "zeros_in_denominator": _zeros(denominator),
            "denominator_numel": denominator.numel() if isinstance(denominator, Tensor) else 1,
            "operand_numel": operands[0].numel() if operands and isinstance(operands[0], Tensor) else None,
        }
        self._found.append(found)


def _can_be_read(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or tensor.numel() > _LARGEST or not measurable(tensor):
        return False
    return tensor.device.type == "cpu" or (
        tensor.device.type == "cuda" and not torch.cuda.is_current_stream_capturing()
    )


def _finite(operand: object) -> bool:
    if isinstance(operand, float):
        return isfinite(operand)
    if isinstance(operand, (list, tuple)):
        return all(_finite(each) for each in operand)
    if not isinstance(operand, Tensor) or not operand.is_floating_point():
        return True
    return not operand.requires_grad and _can_be_read(operand) and bool(torch.isfinite(operand).all())


def _zeros(denominator: object) -> int | None:
    if isinstance(denominator, Tensor):
        return int((denominator == 0).sum())
    return int(denominator == 0) if isinstance(denominator, (int, float)) else None
