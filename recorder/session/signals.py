"""What happens in a training, as signals: a part that wants to know connects a listener, and none ever takes another's place.

Listeners are told in the order in which they were connected. No row depends on that order, but for the watches that say whose
work they use (session/watch.py).
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, ParamSpec

from torch import Tensor, nn

from ...schemas.files.step_values import Row
from ..script.signal_handlers import raised_by_signal_handler
from ..tensors.device import Late
from ..tensors.moments import Moments
from .guard import Guard
from .registry import ModuleEntry

P = ParamSpec("P")


class Signal(Generic[P]):
    """One thing that happens again and again. A listener that raises is switched off, and the others are told all the same."""

    __slots__ = ("_guard", "listeners")

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.listeners: list[Callable[P, Any]] = []
        """Guarded."""

    def connect(self, part: str, listener: Callable[P, Any]) -> None:
        """Tell a listener, a part of the recorder, from now on."""
        self.listeners.append(self._guard.guarded(part, listener))

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all listeners."""
        for listener in self.listeners:
            listener(*args, **kwargs)


class HotSignal(Generic[P]):
    """What happens so often that a guarded wrapper for each listener would cost as much as most of them: it is guarded where it
    is emitted. A row of `steps` is about to be made; a module has put out a tensor."""

    __slots__ = ("_guard", "_listeners")

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._listeners: list[tuple[str, Callable[P, Any]]] = []

    def connect(self, part: str, listener: Callable[P, Any]) -> None:
        """Tell a listener, a part of the recorder, from now on."""
        self._listeners.append((part, listener))

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all listeners."""
        guard = self._guard
        off = guard.off
        for part, listener in self._listeners:
            if part not in off:
                try:
                    listener(*args, **kwargs)
                except Exception as e:
                    if raised_by_signal_handler(e):
                        raise
                    guard.fault(part, e)


class Signals:
    """All signals of a session."""

    def __init__(self, guard: Guard) -> None:
        self.recording_begins: Signal[[Row]] = Signal(guard)
        """Listeners add their columns to this process's row of `ranks`."""
        self.recording_began: Signal[[]] = Signal(guard)
        """That row is written."""
        self.model_found: Signal[[ModuleEntry]] = Signal(guard)
        """A model was numbered; its outermost module."""
        self.inner_model_found: Signal[[ModuleEntry]] = Signal(guard)
        """A model was found within the forward of this module, which holds it in some way of its own."""
        self.unseen_models: Signal[[]] = Signal(guard)
        """Models may have been found by their parameters, without a call of theirs."""
        self.call: Signal[[nn.Module, tuple[Any, ...], dict[str, Any], ModuleEntry | None]] = Signal(guard)
        """The script's own code calls a model, or a module without weights (None), with gradients on."""
        self.evaluated_loss: Signal[[nn.Module, tuple[Any, ...]]] = Signal(guard)
        """The script's own code calls a loss module of torch with gradients off."""
        self.output: Signal[[ModuleEntry, Any, bool]] = Signal(guard)
        """An outermost module call has returned this, with gradients on or off; also while nothing trains yet."""
        self.activation: HotSignal[[ModuleEntry, int, Tensor]] = HotSignal(guard)
        """A module has put out a tensor (its tensor_id, itself) in a training forward whose activations are measured."""
        self.loss: Signal[[Tensor]] = Signal(guard)
        """Backward is called on a loss."""
        self.backward_ended: HotSignal[[]] = HotSignal(guard)
        """A backward has returned; ``position.microbatch`` counts it."""
        self.loss_measured: Signal[[Moments]] = Signal(guard)
        """Moments of a loss on which backward is called, before what is behind it is looked at."""
        self.gradients: Signal[[float | Late | None, bool, bool]] = Signal(guard)
        """Joint norm of the gradients of a step; whether that is known before it is certain that they will be used; whether a
        GradScaler has left the step out for them."""
        self.step_begins: Signal[[]] = Signal(guard)
        """The script is about to make an optimizer step."""
        self.row_ends: HotSignal[[]] = HotSignal(guard)
        """A row of `steps` is about to be made: listeners add columns to ``step_row.facts``, and rows to tables."""
        self.step_ends: Signal[[]] = Signal(guard)
        """An iteration is over, all its rows of `steps` are made, and ``position.step`` is still its number."""
        self.looks_away: Signal[[]] = Signal(guard)
        """The steps that follow go unwatched: what is still in torch is to be taken out."""
        self.exception: Signal[[BaseException]] = Signal(guard)
        """An exception that nothing has caught ends the script."""
        self.recording_ends: Signal[[]] = Signal(guard)
        """Before what is left is written."""


class Answers:
    """Questions that one part of the recorder answers to all others."""

    def __init__(self, default_step: Callable[[], int]) -> None:
        self.module_of: Callable[[int], int | None] = lambda _: None
        """module_id of the innermost module in whose forward autograd made a node; loop/forward.py answers."""
        self.step_of_failure: Callable[[TracebackType | None], int] = lambda _: default_step()
        """To which step an exception belongs, by its traceback; capture/failure_step.py answers."""
