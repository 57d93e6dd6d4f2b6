"""What DistributedDataParallel has timed of itself: its first ten iterations, and each hundredth."""

from typing import Any
from weakref import WeakKeyDictionary

import torch

from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch

_FIRST, _EVERY = 10, 100
"""Iterations that its reducer times. (kDDPRuntimeLoggingSampleRate in torch/csrc/distributed/c10d/reducer.hpp)"""

_COLUMNS = {
    "forward_ns": "forward_compute_time",
    "backward_ns": "backward_compute_time",
    "comm_ns": "backward_comm_time",
    "overlap_ns": "backward_compute_comm_overlap_time",
    "buckets": "num_buckets_reduced",
}


class ReplicaTimes(Watch):
    """Writes table `ddp_times`."""

    name = "replica-times"
    writes = ("ddp_times",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._last: WeakKeyDictionary[Any, tuple[int, int]] = WeakKeyDictionary()
        """Wrapper → its synchronised forwards so far, and the step of the last."""

    def install(self, patches: Patches) -> None:
        """Be told of forwards of DistributedDataParallel."""
        patches.after_import(
            "torch.nn.parallel.distributed",
            lambda owner: patches.around(
                owner.DistributedDataParallel, "forward", after=self.guarded(self._forward_returned)
            ),
        )

    def _forward_returned(self, _note: Any, _result: Any, module: Any, *_: Any, **__: Any) -> None:
        """A forward has returned: in it the reducer has closed its books on the iteration before."""
        if not (torch.is_grad_enabled() and module.require_backward_grad_sync):
            return
        before, step = self._last.get(module, (0, 0))
        self._last[module] = before + 1, self.session.position.step
        if before == 0 or (before > _FIRST and before % _EVERY):
            return
        times = module._get_ddp_logging_data()
        if times.get("iteration") == before:  # otherwise it was not timed
            columns = {column: times.get(name) for column, name in _COLUMNS.items()}
            self.session.rows.add(
                "ddp_times", step=step, iteration=before - 1, backend=times.get("backend_name"), **columns
            )
