"""States of recurrences: one and the same in each step of a loop, or carried on from one batch to the next.

Only the address of a state is kept, until the loss: what is computed from weights lives that long. Of the last states that were
put out, a few numbers are kept until the next batch. Looked at in the first losses of a run; nothing is looked at where a model
has no recurrence.
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
from ..tensors.moments import LATE_DEVICES

_LEAST_CALLS = 4
"""Calls from which a loop is told from the children of a node in a tree, and the like."""

_LOSSES = 4
"""Losses before which calls are looked at: a loop over time is there from the beginning."""

_NUMBERS = 8
"""Of a state, by which it is known again."""


_Sample = tuple[torch.Size, tuple[float, ...]]


def _sample(state: Tensor) -> _Sample:
    """Shape and first numbers of a state; of one that is zero throughout them nothing that another could have too."""
    numbers = tuple(state.detach().flatten()[:_NUMBERS].tolist())
    return state.shape, numbers if any(numbers) else (float("nan"),)


class _Recurrence:
    """A recurrence whose calls are looked at."""

    __slots__ = ("calls", "carried", "last", "module", "module_id", "put_out")

    def __init__(self, module: nn.RNNBase | nn.RNNCellBase, module_id: int) -> None:
        self.module = weakref.ref(module)
        self.module_id = module_id
        self.calls: list[tuple[int, int, int] | None] = []
        """Since the last loss: address and version of the state, address of the input; None for any other call."""
        self.put_out: set[_Sample] = set()
        """Since the last loss."""
        self.last: set[_Sample] = set()
        """Between the two losses before."""
        self.carried = 0
        """Losses whose first call began with a state that the recurrence had put out before the loss before."""

    def note(self, given: Any, state: Any) -> None:
        """A call with this input and state."""
        module = self.module()
        if isinstance(state, (tuple, list)) and state:
            state = state[0]
        if not self.calls and self.last and type(state) is Tensor and state.grad_fn is None:
            self.carried += _sample(state) in self.last
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

    def end_of_batch(self) -> None:
        """What comes now belongs to the next loss."""
        self.calls.clear()
        self.last, self.put_out = self.put_out, set()


class _Look(OneShotHook):
    """Called before the forward of a module, to look at it where it is a recurrence."""

    def __init__(self, known: IdentityMap[nn.Module, _Recurrence], look: Callable[..., None]) -> None:
        self._known = known
        self._look = look

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not is_compiling() and module in self._known:
            self._look(module, args)


class RecurrentStatesWatch(Watch):
    """Writes events ``state-not-carried`` and ``state-carried-over``."""

    name = "recurrent-states"
    writes = ("events:state-not-carried", "events:state-carried-over")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._known: IdentityMap[nn.Module, _Recurrence] = IdentityMap()
        self._patches: Patches | None = None
        self._losses = 0

    def listen(self, signals: Signals) -> None:
        """Look for recurrences in each model, and at their calls and states at each loss."""
        signals.model_found.connect(self.name, self._find_recurrent_modules)
        signals.loss.connect(self.name, self._judge)

    def install(self, patches: Patches) -> None:
        """The hook comes with the first recurrence that is found."""
        self._patches = patches
        if self._known:
            self._hook()

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
            self._known[module] = _Recurrence(module, entry.id)
        if self._known:
            self._hook()

    def _hook(self) -> None:
        """Listen from the first recurrence on, once: what is hooked is called for every module."""
        patches, self._patches = self._patches, None
        if patches is None:
            return
        self.session.signals.activation.connect(self.name, self._note_output)
        look = _Look(self._known, self.guarded(self._note_states))

        def on_themselves() -> list[Removable]:
            modules = [module for known in self._known.values() if (module := known.module()) is not None]
            return [module.register_forward_pre_hook(look) for module in modules]

        patches.hook_some(look, on_themselves)

    def _note_states(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled() and not self.session.position.in_backward and args:
            self._known[module].note(args[0], args[1] if len(args) > 1 else None)

    def _note_output(self, entry: ModuleEntry, _tensor_id: int, output: Tensor) -> None:
        if output.device.type in LATE_DEVICES:
            return
        module = entry.ref()
        recurrence = None if module is None else self._known.get(module)
        if recurrence is not None and output.numel():
            recurrence.put_out.add(_sample(output))

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
            elif module is not None and self._losses == _LOSSES and recurrence.carried == _LOSSES - 1:
                self.session.rows.event(
                    "state-carried-over",
                    f"{type(module).__name__} begins each batch with the state that the batch before has left",
                    module_id=recurrence.module_id,
                    detail={"batches": recurrence.carried},
                )
            recurrence.end_of_batch()
            if self._losses >= _LOSSES and module is not None:
                self._known.pop(module)
