"""Graphs of many forwards that live at once and are let go of without a backward: an evaluation that sums its losses with their
graphs, or keeps its predictions with them.

A mark in the node of an output dies with its graph, as in graphs_alive. Between two backwards the marks are counted now and then.
"""

import weakref
from typing import Any

from torch import Tensor

from ..script.call_arguments import tensors_in
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from .weak_marks import Mark, leave

_EACH = 8
"""Forwards from one count to the next, and graphs that are worth a word: a loss over several forwards has as many."""

_MOST = 4096
"""Forwards between two backwards that are followed."""

_PART = 0.75
"""Of the graphs that lived at once, the least that must be gone before the next backward: what is left may be used by it."""


class GraphsLetGo(Watch):
    """Writes an event where the graphs of many forwards lived at once and none had a backward."""

    name = "graphs-let-go"
    writes = ("events:graphs-let-go",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._marks: list[weakref.ref[Mark]] = []
        self._most = 0
        self._module_id = -1

    def listen(self, signals: Signals) -> None:
        """Mark outputs, and count up to the next backward or step."""
        signals.output.connect(self.name, self._mark)
        signals.loss.connect(self.name, self._end)
        signals.step_begins.connect(self.name, self._end)
        signals.recording_ends.connect(self.name, self._end)

    def _mark(self, entry: ModuleEntry, output: Any, grad: bool) -> None:
        session = self.session
        if not grad or not session.started or session.position.saved_tensor_hooks_used or len(self._marks) >= _MOST:
            return
        node = next((tensor.grad_fn for _, tensor in tensors_in(output) if tensor.grad_fn is not None), None)
        if node is None:
            return
        mark = Mark()
        leave(mark, node, "let_go")
        self._marks.append(weakref.ref(mark))
        self._module_id = entry.id
        if len(self._marks) % _EACH == 0:
            self._most = max(self._most, self._alive())

    def _alive(self) -> int:
        return sum(ref() is not None for ref in self._marks)

    def _end(self, _: Tensor | None = None) -> None:
        if self._most >= _EACH and self._most - self._alive() >= _PART * self._most:
            self.session.rows.event(
                "graphs-let-go",
                f"{self._most} forwards kept their graphs at once, and no backward used them",
                module_id=self._module_id,
                detail={"graphs": self._most, "forwards": len(self._marks)},
            )
        self._marks, self._most = [], 0
