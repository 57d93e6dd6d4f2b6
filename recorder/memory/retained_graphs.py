"""Autograd graphs of earlier losses that still exist: what `total += loss` keeps.

A small object is left in the notes of the loss's node (autograd's own dictionary for anomaly mode) and held weakly here: it
dies with the node. Nothing is kept alive, nothing about the graph changes.
"""

from torch import Tensor

from ..session.patches import Patches
from ..session.session import Session
from .weak_marks import Marks


class GraphsAlive:
    """Fills ``steps.graphs_alive``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._marks = Marks()
        session.on_loss = session.guarded("graphs", self._mark)
        session.at_finish.append(("graphs", self._count))

    def install(self, patches: Patches) -> None:
        """Nothing of its own is put into torch."""

    def _mark(self, loss: Tensor) -> None:
        node = loss.grad_fn
        if node is None or self.session.saved_tensor_hooks_used:
            return
        mark = self._marks.add(self.session.step)
        node.metadata["firstfault"] = mark  # pyright: ignore[reportIndexIssue] — a property, typed as a method

    def _count(self) -> None:
        # the loss of the step before usually still has its name
        self.session.facts["graphs_alive"] = self._marks.before(self.session.step - 1)
