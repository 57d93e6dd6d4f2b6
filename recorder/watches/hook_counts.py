"""How many hooks the modules of a model bear: a hook that is registered at every step and never removed is run once more
each step."""

import weakref
from typing import Any

from torch import nn
from torch.nn.modules import module as nn_module
from torch.utils.hooks import RemovableHandle

from ...schemas import Phase
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_AT_ONCE = 128
"""Modules and parameters that are looked at in one step; of a larger model all are looked at every few steps."""

_FIRST_STEPS = 32
_CALM_EVERY = 8
"""Steps between two looks after the first ones, while no other number of hooks is registered in a step than in the step
before. What is registered at every step is counted as exactly, only later."""

_KINDS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL = ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks", "_global_backward_pre_hooks")


class HookCounts(Watch):
    """Writes a row of `probes` whenever the hooks of a module, or its parameters', are not as many as before."""

    name = "hook-counts"
    writes = ("probes:hooks",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._watched: list[tuple[weakref.ref[nn.Module], int]] = []
        self._interval = 1
        self._counts: dict[int, int] = {}
        self._roots: list[ModuleEntry] = []
        self._globals: int | None = None
        self._registered = self._fresh = 0
        """Hooks of any kind that were ever registered, and in the last step."""

    def listen(self, signals: Signals) -> None:
        """Look at each step."""
        signals.row_ends.connect(self.name, self._count_hooks)

    def _count_hooks(self) -> None:
        session = self.session
        if self._roots != session.catalogue.roots:
            self._find()
        registered = RemovableHandle.next_id
        fresh, self._registered = registered - self._registered, registered
        calm, self._fresh = (
            fresh == self._fresh and session.position.step >= session.attempt.first_step + _FIRST_STEPS,
            fresh,
        )
        if session.position.step % (max(self._interval, _CALM_EVERY) if calm else self._interval):
            return
        counts = self._counts
        for ref, module_id in self._watched:
            module = ref()
            if module is not None:
                count = _hooks_of(module)
                if count != counts.get(module_id, 0):
                    counts[module_id] = count
                    self._write(module_id, count)
        everywhere = sum(_scripts(getattr(nn_module, kind)) for kind in _GLOBAL)
        if everywhere != self._globals:
            if self._globals is not None:
                self._write(None, everywhere)
            self._globals = everywhere

    def _write(self, module_id: int | None, count: int) -> None:
        self.session.rows.add(
            "probes",
            seq=self.session.position.next_seq(),
            phase=int(Phase.OPTIMIZER),
            module_id=module_id,
            probe="hooks",
            value=float(count),
        )

    def _find(self) -> None:
        catalogue = self.session.catalogue
        self._roots = list(catalogue.roots)
        self._watched = []
        looks = 0
        for root in self._roots:
            model = root.ref()
            for module in model.modules() if model is not None else ():
                entry = catalogue.find(module) if id(module) in catalogue.by_object else None
                if entry is not None:
                    self._watched.append((weakref.ref(module), entry.id))
                    looks += 1 + len(module._parameters)
        self._interval = 1 + looks // _AT_ONCE


_OURS = __name__.partition(".")[0] + "."


def _scripts(hooks: dict[int, Any]) -> int:
    """How many of torch's hooks on all modules are not the recorder's, which come and go."""
    return sum(not str(getattr(hook, "__module__", "")).startswith(_OURS) for hook in hooks.values())


def _hooks_of(module: nn.Module) -> int:
    parts: dict[str, Any] = module.__dict__
    count = sum([len(parts[kind]) for kind in _KINDS])
    for parameter in parts["_parameters"].values():
        if parameter is not None:
            if parameter._backward_hooks:
                count += len(parameter._backward_hooks)
            if parameter._post_accumulate_grad_hooks:
                count += len(parameter._post_accumulate_grad_hooks)
    return count
