"""Whether the script changes gradients itself between the last backward and the optimizer step, as `p.grad /= n` does.

Autograd counts the changes in place of each tensor. Clipping by norm and unscaling each make one, clipping by value up to two.
"""

import weakref

from torch import Tensor

from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch


class ScaledGradients(Watch):
    """Writes an event at the first step of several microbatches whose gradients the script has changed."""

    name = "scaled-gradients"
    writes = ("events:gradients-scaled",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._gradient: weakref.ref[Tensor] | None = None
        self._version = 0
        self._told = False

    def listen(self, signals: Signals) -> None:
        """Remember a gradient after each backward but the first of a step, and compare it before the step."""
        signals.backward_ended.connect(self.name, self._remember)
        signals.step_begins.connect(self.name, self._compare)

    def _remember(self) -> None:
        self._gradient = None
        position = self.session.position
        if self._told or position.unwatched or position.microbatch < 2:
            return
        gradient = self._first_gradient()
        if gradient is not None and not gradient.is_inference():
            self._gradient, self._version = weakref.ref(gradient), gradient._version

    def _first_gradient(self) -> Tensor | None:
        for root in self.session.catalogue.roots:
            module = root.ref()
            for parameter in module.parameters() if module is not None else ():
                if parameter.grad is not None:
                    return parameter.grad
        return None

    def _compare(self) -> None:
        gradient = self._gradient() if self._gradient is not None else None
        self._gradient = None
        if gradient is None or self.session.position.unwatched:  # of such a step the calls are not known
            return
        row = self.session.step_row
        since = row.calls.rpartition("b")[2]
        of_torch = since.count("u") + since.count("c") * (2 if "clip_value" in row.facts else 1)
        if gradient._version - self._version > of_torch:
            self._told = True
            self.session.rows.event("gradients-scaled", "the script changes gradients itself before the optimizer step")
