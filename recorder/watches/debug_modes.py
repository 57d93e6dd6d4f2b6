"""Which of torch's debug modes are on while the script trains: each costs time at every step."""

import os

import torch
from torch._C._autograd import _profiler_enabled  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

from ..session.patches import Patches
from ..session.session import Session

_ON = {"1", "true", "yes", "on"}


class DebugModes:
    """Fills ``steps.debug_modes``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        session.at_finish.append(("debug-modes", self._look))

    def install(self, patches: Patches) -> None:
        """Nothing is put into torch."""

    def _look(self) -> None:
        modes: list[str] = []
        if torch.is_anomaly_enabled():
            modes.append("anomaly detection")
        if _profiler_enabled() and self.session.mark is None:  # not a window of the recorder's own
            modes.append("profiler")
        if torch.cuda.is_initialized() and os.environ.get("CUDA_LAUNCH_BLOCKING", "").lower() in _ON:
            modes.append("blocking launches")
        if modes:
            self.session.facts["debug_modes"] = ", ".join(modes)
