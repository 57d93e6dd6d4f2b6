"""Recurrent cells that a loop gives one and the same state at each of its steps, instead of the state of the step before.

Only the address of the state is kept, until the loss: what is computed from weights lives that long. Looked at in the first
losses of a run; nothing is looked at where a model has no recurrence.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from ..base.identity_map import IdentityMap
from ..loop.unhooked_forwards import OneShotHook
from ..session.patches import Patches, Removable
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_LEAST_CALLS = 4
"""Calls from which a loop is told from the children of a node in a tree, and the like."""

_LOSSES = 4
"""Losses before which calls are looked at: a loop over time is there from the beginning."""


class _Recurrence:
    """A recurrence whose calls are looked at."""

    __slots__ = ("calls", "module", "module_id")

    def __init__(self, module: nn.RNNBase | nn.RNNCellBase, module_id: int) -> None:
        self.module = weakref.ref(module)
        self.module_id = module_id
        self.calls: list[tuple[int, int, int] | None] = []
        """Since the last loss: address and version of the state, address of the input; None for any other call."""

    def note(self, given: Any, state: Any) -> None:
        """A call with this input and state."""
        module = self.module()
        if isinstance(state, (tuple, list)) and state:
            state = state[0]
        call = None
        if type(given) is Tensor and type(state) is Tensor and state.grad_fn is not None:
            length_at = 1 if getattr(module, "batch_first", False) and given.dim() == 3 else 0
            if isinstance(module, nn.RNNCellBase) or given.shape[length_at] == 1:
                call = state.data_ptr(), state._version, given.data_ptr()
        self.calls.append(call)

    def stands(self) -> bool:
        """Whether it was given one state again and again, with other inputs."""
        if len(self.calls) < _LEAST_CALLS or None in self.calls:
            return False
        calls = [call for call in self.calls if call is not None]
        return len({call[:2] for call in calls}) == 1 and len({call[2] for call in calls}) == len(calls)


class _Look(OneShotHook):
    """Called before the forward of a module, to look at it where it is a recurrence."""

    def __init__(self, known: IdentityMap[nn.Module, _Recurrence], look: Callable[..., None]) -> None:
        self._known = known
        self._look = look

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not is_compiling() and module in self._known:
            self._look(module, args)


class RecurrentStatesWatch(Watch):
    """Writes event ``state-not-carried``."""

    name = "recurrent-states"
    writes = ("events:state-not-carried",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._known: IdentityMap[nn.Module, _Recurrence] = IdentityMap()
        self._patches: Patches | None = None
        self._losses = 0

    def listen(self, signals: Signals) -> None:
        """Look for recurrences in each model, and at their calls at each loss."""
        signals.model_found.connect(self.name, self._find_recurrent_modules)
        signals.loss.connect(self.name, self._judge)

    def install(self, patches: Patches) -> None:
        """The hook comes with the first recurrence that is found."""
        self._patches = patches
        if self._known:
            self._hook(patches)

    def _find_recurrent_modules(self, root: ModuleEntry) -> None:
        model = root.ref()
        if model is None or self._losses >= _LOSSES:
            return
        for module in model.modules():
            if not isinstance(module, (nn.RNNBase, nn.RNNCellBase)) or module in self._known:
                continue
            entry = self.session.catalogue.find(module)
            if entry is None:
                continue
            if not self._known and self._patches is not None:
                self._hook(self._patches)
            self._known[module] = _Recurrence(module, entry.id)

    def _hook(self, patches: Patches) -> None:
        look = _Look(self._known, self.guarded(self._note_states))

        def on_themselves() -> list[Removable]:
            modules = [module for known in self._known.values() if (module := known.module()) is not None]
            return [module.register_forward_pre_hook(look) for module in modules]

        patches.hook_some(look, on_themselves)

    def _note_states(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled() and not self.session.position.in_backward and args:
            self._known[module].note(args[0], args[1] if len(args) > 1 else None)

    def _judge(self, _loss: Tensor) -> None:
        if self._losses >= _LOSSES or not len(self._known):
            return
        self._losses += 1
        known = list(self._known.values())
        for recurrence in known:
            module = recurrence.module()
            if module is not None and recurrence.stands():
                self._losses = _LOSSES
                self.session.rows.event(
                    "state-not-carried",
                    f"{type(module).__name__} was given one state in all its calls",
                    module_id=recurrence.module_id,
                    detail={"calls": len(recurrence.calls)},
                )
            recurrence.calls.clear()
            if self._losses >= _LOSSES and module is not None:
                self._known.pop(module)
