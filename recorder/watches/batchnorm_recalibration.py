"""The pass that sets batch norm's statistics anew for averaged weights: forwards in train mode, on purpose."""

import functools
from collections.abc import Callable
from typing import Any

from torch.optim import swa_utils

from ..session.patches import Patches
from ..session.session import Session


class RecalibrationWatch:
    """Tells the session while ``torch.optim.swa_utils.update_bn`` runs: its forwards are no evaluation."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def install(self, patches: Patches) -> None:
        """Wrap the function where scripts find it."""
        session = self.session

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def update_bn(*args: Any, **kwargs: Any) -> Any:
                session.recalibrating = True
                try:
                    return original(*args, **kwargs)
                finally:
                    session.recalibrating = False

            return update_bn

        patches.wrap(swa_utils, "update_bn", wrap)
