"""Tensors of a script without modules that ask for a gradient and stand in every loss, and that no optimizer holds."""

import weakref

from torch import Tensor

from ..autograd.graph import leaves_of
from ..script.variable_names import TensorNames
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from .rare_looks import RareLooks

_MOST_STEPS = 64
"""Steps after which nobody looks any more: what stands in the loss does so from the first step on."""
_FEWEST = 16
"""Elements: a number may be a setting."""
_STEPS = 4
"""Looks at different steps in which a tensor must be the same object with the same values."""
_MOST_TOLD = 4


class UnheldLeaves(Watch):
    """Writes an event for each of the first such tensors, once an optimizer has stepped."""

    name = "unheld-leaves"
    writes = ("events:leaf-not-held",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._looks = RareLooks()
        self._first = -1
        self._last = -1
        self._seen: dict[int, tuple[weakref.ref[Tensor], int, int]] = {}
        """id → the tensor, its version, and the number of steps in which it was seen so."""
        self._told = 0

    def listen(self, signals: Signals) -> None:
        """Look at losses."""
        signals.loss.connect(self.name, self._loss)

    def _loss(self, loss: Tensor) -> None:
        step = self.session.position.step
        if self._first < 0:
            self._first = step
        if step >= self._first + _MOST_STEPS or self._told >= _MOST_TOLD or step == self._last:
            return
        catalogue = self.session.catalogue
        if not self._looks.due(step) or not catalogue.holders or not catalogue.only_bare_parameters():
            return  # the inputs of a module may ask for gradients too
        self._last = step
        for leaf in leaves_of(loss):
            if leaf.numel() >= _FEWEST and catalogue.holders.get(leaf) is None:
                self._note(leaf)

    def _note(self, leaf: Tensor) -> None:
        known = self._seen.get(id(leaf))
        same = known is not None and known[0]() is leaf and known[1] == leaf._version
        count = known[2] + 1 if known is not None and same else 1
        self._seen[id(leaf)] = weakref.ref(leaf), leaf._version, count
        if count == _STEPS:
            self._told += 1
            name = TensorNames().of(leaf) or "a tensor"
            self.session.rows.event(
                "leaf-not-held",
                f"{name} of shape {tuple(leaf.shape)} is in the graph of the loss, and no optimizer holds it",
                detail={
                    "tensor": name,
                    "shape": list(leaf.shape),
                    "first": self._first,
                    "steps": count,
                },
            )
