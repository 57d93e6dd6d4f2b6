"""Masks without effect: of a few backward passes, whether a softmax leaves probability to scores that were masked."""

from torch import Tensor

from ..autograd.mask_fills import Leak, leaks
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from .rare_looks import RareLooks

_MOST = 6
"""Events of a run: the same one comes at each look."""

_IN_VAIN = 4
"""Looks without any masked softmax after which none is taken any more."""


class MaskFillsWatch(Watch):
    """Writes events of masks without effect."""

    name = "mask-fills"
    writes = ("events:mask-without-effect",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._looks = RareLooks()
        self._left = _MOST
        self._in_vain = 0

    def listen(self, signals: Signals) -> None:
        """Look behind losses."""
        signals.loss.connect(self.name, self._backward)

    def _backward(self, loss: Tensor) -> None:
        position = self.session.position
        if self._left <= 0 or self._in_vain >= _IN_VAIN or position.saved_tensor_hooks_used:
            return
        if not self._looks.due(position.step):
            return
        masked, leak = leaks(loss)
        self._in_vain = 0 if masked else self._in_vain + 1
        if leak is not None:
            self._write(leak)

    def _write(self, leak: Leak) -> None:
        self._left -= 1
        self.session.rows.event(
            "mask-without-effect",
            f"a softmax leaves {leak.share:.4f} to masked entries of {leak.rows} rows",
            module_id=self.session.answers.module_of(leak.node._sequence_nr()),
            detail={
                "kind": leak.kind,
                "op": leak.op,
                "rows": leak.rows,
                "share": leak.share,
                "uniform": leak.uniform,
            },
        )
