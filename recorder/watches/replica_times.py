"""What DistributedDataParallel has timed of itself: its first ten iterations, and each hundredth."""

from typing import Any
from weakref import WeakKeyDictionary

import torch

from ..session.session import Session

_FIRST, _EVERY = 10, 100
"""Iterations that its reducer times. (kDDPRuntimeLoggingSampleRate in torch/csrc/distributed/c10d/reducer.hpp)"""

_COLUMNS = {
    "forward_ns": "forward_compute_time",
    "backward_ns": "backward_compute_time",
    "comm_ns": "backward_comm_time",
    "overlap_ns": "backward_compute_comm_overlap_time",
    "buckets": "num_buckets_reduced",
}


class ReplicaTimes:
    """Writes table `ddp_times`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._last: WeakKeyDictionary[Any, tuple[int, int]] = WeakKeyDictionary()
        """Wrapper → its synchronised forwards so far, and the step of the last."""

    def forward_returned(self, module: Any) -> None:
        """A forward has returned: in it the reducer has closed its books on the iteration before."""
        if not (torch.is_grad_enabled() and module.require_backward_grad_sync):
            return
        before, step = self._last.get(module, (0, 0))
        self._last[module] = before + 1, self.session.step
        if before == 0 or (before > _FIRST and before % _EVERY):
            return
        times = module._get_ddp_logging_data()
        if times.get("iteration") == before:  # otherwise it was not timed
            columns = {column: times.get(name) for column, name in _COLUMNS.items()}
            self.session.add("ddp_times", step=step, iteration=before - 1, backend=times.get("backend_name"), **columns)
