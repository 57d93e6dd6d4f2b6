"""The pass that sets batch norm's statistics again for averaged weights: forwards in train mode, on purpose."""

from typing import Any

from torch.optim import swa_utils

from ..loop.forward import ForwardWatch
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch


class RecalibrationWatch(Watch):
    """Tells the forward room while ``torch.optim.swa_utils.update_bn`` runs: its forwards are no evaluation."""

    name = "recalibration"

    def __init__(self, session: Session, forward: ForwardWatch) -> None:
        super().__init__(session)
        self._forward = forward

    def install(self, patches: Patches) -> None:
        """Wrap the function where scripts find it."""
        patches.around(swa_utils, "update_bn", before=self._begins, lastly=self._ends)

    def _begins(self, *_: Any, **__: Any) -> None:
        self._forward.recalibrating = True

    def _ends(self, *_: Any) -> None:
        self._forward.recalibrating = False
