"""Autograd graphs of earlier losses that still exist: what `total += loss` keeps.

A small object is left in the notes of the loss's node (autograd's own dictionary for anomaly mode) and held weakly here: it
dies with the node. Nothing is kept alive, nothing about the graph changes.
"""

from torch import Tensor

from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from .weak_marks import Marks, leave


class GraphsAlive(Watch):
    """Fills ``steps.graphs_alive``."""

    name = "graphs"
    writes = ("steps.graphs_alive",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._marks = Marks()

    def listen(self, signals: Signals) -> None:
        """Mark each loss, and count at each step the marks that live."""
        signals.loss.connect(self.name, self._mark)
        signals.row_ends.connect(self.name, self._count)

    def _mark(self, loss: Tensor) -> None:
        node = loss.grad_fn
        if node is None or self.session.position.saved_tensor_hooks_used:
            return
        mark = self._marks.add(self.session.position.step)
        leave(mark, node, "loss")

    def _count(self) -> None:
        # the loss of the step before usually still has its name
        self.session.step_row.facts["graphs_alive"] = self._marks.before(self.session.position.step - 1)
