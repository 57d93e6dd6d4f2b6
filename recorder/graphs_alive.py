"""Autograd graphs of earlier losses that still exist: what `total += loss` keeps.

A small object is left in the notes of the loss's node (autograd's own dictionary for anomaly mode) and held weakly here: it
dies with the node. Nothing is kept alive, nothing about the graph changes.
"""

import weakref

from torch import Tensor

from .patches import Patches
from .session import Session

_MOST = 100_000


class Mark:
    """Dies with the node that carries it."""

    __slots__ = ("__weakref__",)


class GraphsAlive:
    """Fills ``steps.graphs_alive``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._marks: list[tuple[int, weakref.ref[Mark]]] = []
        session.on_loss = session.guarded("graphs", self._mark)
        session.at_finish.append(session.guarded("graphs", self._count))

    def install(self, patches: Patches) -> None:
        """Nothing of its own is put into torch."""

    def _mark(self, loss: Tensor) -> None:
        node = loss.grad_fn
        if node is None or self.session.saved_tensor_hooks_used:
            return
        mark = Mark()
        node.metadata["firstfault"] = mark  # pyright: ignore[reportIndexIssue] — a property, typed as a method
        self._marks.append((self.session.step, weakref.ref(mark)))

    def _count(self) -> None:
        now = self.session.step
        self._marks = [(step, ref) for step, ref in self._marks[-_MOST:] if ref() is not None]
        # the loss of the step before usually still has its name
        self.session.facts["graphs_alive"] = sum(step < now - 1 for step, _ in self._marks)
