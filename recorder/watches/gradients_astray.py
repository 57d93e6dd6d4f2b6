"""Targets and advantages that keep their gradient: of a few backward passes, whether a value that should be a number trains the
weights that it came of."""

from torch import Tensor

from ..autograd.gradients_astray import Astray, astray
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from .rare_looks import RareLooks

_MOST = 12
"""Events of a run: the same one comes at each look."""


class GradientsAstrayWatch(Watch):
    """Writes events of targets and advantages that have a graph."""

    name = "gradients-astray"
    writes = ("events:target-not-detached",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._looks = RareLooks()
        self._left = _MOST

    def listen(self, signals: Signals) -> None:
        """Look at losses."""
        signals.loss.connect(self.name, self._backward)

    def _backward(self, loss: Tensor) -> None:
        position = self.session.position
        if self._left <= 0 or position.saved_tensor_hooks_used or not self._looks.due(position.step):
            return
        for found in astray(loss):
            if all(map(self.session.catalogue.has_parameter, found.leaves.values())):
                self._write(found)

    def _write(self, found: Astray) -> None:
        self._left -= 1
        self.session.rows.event(
            "target-not-detached",
            f"{found.through} in a target reaches {len(found.leaves)} parameters",
            module_id=self.session.answers.module_of(found.node._sequence_nr()),
            detail={
                "form": found.form,
                "through": found.through,
                "factor": found.factor,
                "parameters": len(found.leaves),
            },
        )
