"""Find evaluations that draw random numbers, and for what: dropout that a functional call leaves on in eval mode.

A module in eval mode that drops units gives another result each time. No flag shows it where dropout is a function's argument.
Nor does one show that a module in train mode would need eval(), where it holds no dropout of its own. So now and then torch's own
profiler, which changes nothing, lists the operators of one forward without gradients, with the module in which each ran.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._C import _autograd, _profiler  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
from torch.compiler import is_compiling
from torch.nn.modules import module as nn_module
from torch.nn.modules.dropout import _DropoutNd

from ..session.patches import Patches
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_profiling: Callable[[], bool] = _autograd._profiler_enabled
_start: Callable[[Any], None] = _autograd._enable_profiler_legacy
_finish: Callable[[], list[list[Any]]] = _autograd._disable_profiler_legacy
_begin: Callable[[str], Any] = getattr(torch.autograd, "_record_function_with_args_enter")  # noqa: B009 — private
_end: Callable[[Any], None] = getattr(torch.autograd, "_record_function_with_args_exit")  # noqa: B009 — private

_MOST_LOOKS = 3
"""Forwards whose operators are listed in one run, of models in each mode: a mode that is forgotten is forgotten in the first."""

_MOST_NAMED = 4
_MARK = "firstfault "
_DROPOUTS = ("aten::dropout", "aten::alpha_dropout", "aten::feature_dropout", "aten::feature_alpha_dropout")
_DRAWS = ("aten::bernoulli", "aten::native_dropout", "aten::_fused_dropout")


class RandomEvaluations(Watch):
    """Writes an event ``random-evaluation`` for the first forward without gradients in which a module in eval mode drops units,
    and for the first in which a module in train mode drops them by a function."""

    name = "random-evaluations"
    writes = ("events:random-evaluation",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._missed = 0
        self._looks = {False: 0, True: 0}
        """Forwards looked at, by the training flag of their model."""
        self._step: int | None = None
        self._handles: list[Any] = []
        self._root: nn.Module | None = None
        self._marks: list[tuple[nn.Module, Any, int]] = []
        """Modules whose forward is in progress, each with its mark in the profile and its module_id."""
        self._made = ""
        """Class of a dropout that the forward made for itself: always in training mode, for eval() does not reach it."""

    def listen(self, signals: Signals) -> None:
        """Look whether a model was called for an evaluation."""
        signals.output.connect(self.name, self._ended)
        signals.recording_ends.connect(self.name, self._give_up)

    def install(self, patches: Patches) -> None:
        """The hooks come with the first evaluation, for one forward."""
        patches.later(self._give_up)

    def _ended(self, entry: ModuleEntry, _output: Any, grad: bool) -> None:
        """A model has been called: where that was an evaluation, its next forward is looked at."""
        session = self.session
        if grad:
            if self._handles and self._missed < 2:  # an evaluation of one forward: next time the hooks stay for longer
                self._missed += 1
                self._give_up()
            return
        if self._handles or not session.started or session.position.step == self._step:
            return
        module = entry.ref()
        if module is None or entry.compiled or self._looks[module.training] == _MOST_LOOKS:
            return
        self._handles = [
            nn_module.register_module_forward_pre_hook(self.guarded(self._before)),
            nn_module.register_module_forward_hook(self.guarded(self._after)),
        ]

    def _before(self, module: nn.Module, _args: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled() or is_compiling():
            return
        if self._root is None:
            seen = self._looks[module.training] == _MOST_LOOKS
            if seen or _profiling() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
                return
            entry = self.session.catalogue.by_object.get(id(module))
            if entry is None or entry.ref() is not module:
                return
            self._root, self._made = module, ""
            _start(_CONFIG)
        entry = self.session.catalogue.by_object.get(id(module))
        id_ = -1 if entry is None or module.training != self._root.training else entry.id
        if self._root.training and isinstance(module, _DropoutNd):
            id_ = -1  # its flag tells of it
        elif isinstance(module, _DropoutNd) and module.training and all(m is not module for m in self._root.modules()):
            id_, self._made = self._marks[-1][2], type(module).__name__
        self._marks.append((module, _begin(f"{_MARK}{id_}"), id_))

    def _after(self, module: nn.Module, _args: tuple[Any, ...], _output: Any) -> None:
        if self._root is None or not self._marks:
            return
        while self._marks:
            marked, mark, _ = self._marks.pop()
            _end(mark)
            if marked is module:
                break
        if module is self._root:
            training = module.training
            events = self._stop()
            self._looks[training] += 1
            self._step = self.session.position.step
            self._write(events, training)
            self._give_up()

    def _write(self, events: list[Any], training: bool) -> None:
        found = _dropping(events)
        if not found:
            return
        self._looks[training] = _MOST_LOOKS
        first, operator = found[0]
        self.session.rows.event(
            "random-evaluation",
            f"{operator} drops units in {'train' if training else 'eval'} mode",
            module_id=first,
            detail={
                "operator": operator.removeprefix("aten::"),
                "modules": len({module_id for module_id, _ in found}),
                "module_ids": sorted({module_id for module_id, _ in found})[:_MOST_NAMED],
                "looks": self._looks[training],
                "made": self._made or None,
                "training": training,
            },
        )

    def _stop(self) -> list[Any]:
        self._root = None
        self._marks.clear()
        return [event for thread in _finish() for event in thread]

    def _give_up(self) -> None:
        if self._root is not None:  # a forward that raised
            self._stop()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


_CONFIG = _profiler.ProfilerConfig(
    _profiler.ProfilerState.CPU,
    False,
    False,
    False,
    False,
    False,
    _profiler._ExperimentalConfig(),
)


def _dropping(events: list[Any]) -> list[tuple[int, str]]:
    """(module_id, operator) for each dropout that drew random numbers inside a marked module."""
    found: list[tuple[int, str]] = []
    inside: list[str] = []
    for event in events:
        kind = event.kind()
        if kind == "pop":
            if inside:
                inside.pop()
        elif kind == "push":
            name = event.name()
            inside.append(name)
            if not name.startswith(_DRAWS):
                continue
            operator = next(
                (n for n in reversed(inside) if n in _DROPOUTS or n.startswith("aten::native_dropout")), None
            )
            module_id = next((int(n[len(_MARK) :]) for n in reversed(inside) if n.startswith(_MARK)), -1)
            if operator is not None and module_id >= 0:
                found.append((module_id, operator))
    return found
