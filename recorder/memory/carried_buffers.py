"""Buffers that are made of their own value of the step before, with its autograd graph: a running mean without `no_grad`.

A mark is left in the notes of the node that made the buffer, and held weakly: it dies with the node. Where marks of ever more
steps live, each new value leads into the one before.
"""

import weakref
from typing import NamedTuple

from torch import nn

from ..session.registry import ModuleEntry, submodule
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import node_of
from .weak_marks import Marks

_MOST = 1024
"""Buffers that are looked at."""
_FIRST_LOOKS = 32
_CALM_EVERY = 16
"""Looks between two that are made, after the first ones that found no graph."""
_CARRIED = 8
"""Graphs of earlier steps that live, as many as graph-retained-across-steps (ME001) asks for."""
_KEY = "firstfault-buffer"


class _Slot(NamedTuple):
    """The place of a buffer: its tensor may be another one after each step."""

    owner: weakref.ref[nn.Module]
    key: str
    name: str
    module_id: int | None


class CarriedBuffers(Watch):
    """Writes an event for the first buffer that keeps the graphs of earlier steps."""

    name = "carried-buffers"
    writes = ("events:buffer-carried",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._slots: list[_Slot] = []
        self._marks: dict[int, tuple[Marks, int]] = {}
        """Place of a slot → its marks, and the step of the first."""
        self._looks = 0
        self._told = False

    def listen(self, signals: Signals) -> None:
        """Look at the buffers after each step."""
        signals.model_found.connect(self.name, self._find)
        signals.row_ends.connect(self.name, self._look)

    def _find(self, root: ModuleEntry) -> None:
        model = root.ref()
        if model is None:
            return
        for name, _ in model.named_buffers():
            if len(self._slots) >= _MOST:
                return
            owner = submodule(model, name.rpartition(".")[0])
            entry = self.session.catalogue.find(owner)
            self._slots.append(
                _Slot(weakref.ref(owner), name.rpartition(".")[2], name, entry.id if entry is not None else None)
            )

    def _look(self) -> None:
        if self._told or self.session.position.saved_tensor_hooks_used:
            return
        self._looks += 1
        if not self._marks and self._looks > _FIRST_LOOKS and self._looks % _CALM_EVERY:
            return
        step = self.session.position.step
        for place, slot in enumerate(self._slots):
            owner = slot.owner()
            buffer = owner._buffers.get(slot.key) if owner is not None else None
            node = None if buffer is None or not buffer.requires_grad else node_of(buffer)
            if node is None:
                self._marks.pop(place, None)
                continue
            marks, first = self._marks.setdefault(place, (Marks(), step))
            alive = marks.before(step)
            if alive >= _CARRIED:
                self._tell(slot, first, alive, node.name())
                return
            node.metadata[_KEY] = marks.add(step)

    def _tell(self, slot: _Slot, first: int, alive: int, operator: str) -> None:
        self._told = True
        self._marks.clear()
        self.session.rows.event(
            "buffer-carried",
            f"buffer {slot.name} leads into its values of {alive} earlier steps",
            module_id=slot.module_id,
            detail={"buffer": slot.name, "first": first, "alive": alive, "operator": operator},
        )
