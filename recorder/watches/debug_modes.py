"""Which of torch's debug modes are on while the script trains: each costs time at every step."""

import os

import torch
from torch._C._autograd import _profiler_enabled  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

from ..session.signals import Signals
from ..session.watch import Watch

_ON = {"1", "true", "yes", "on"}


class DebugModes(Watch):
    """Fills ``steps.debug_modes``."""

    name = "debug-modes"
    writes = ("steps.debug_modes",)

    def listen(self, signals: Signals) -> None:
        """Look at each step."""
        signals.row_ends.connect(self.name, self._compare_modes)

    def _compare_modes(self) -> None:
        modes: list[str] = []
        if torch.is_anomaly_enabled():
            modes.append("anomaly detection")
        if _profiler_enabled() and self.session.guard.mark is None:  # not a window of the recorder's own
            modes.append("profiler")
        if torch.cuda.is_initialized() and os.environ.get("CUDA_LAUNCH_BLOCKING", "").lower() in _ON:
            modes.append("blocking launches")
        if modes:
            self.session.step_row.facts["debug_modes"] = ", ".join(modes)
