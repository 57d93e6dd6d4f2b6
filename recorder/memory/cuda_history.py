"""The history and the snapshots of torch's CUDA allocator: which line allocated the blocks that fill the device.

Off unless `--memory-history N` asks for it: then the allocator keeps its last N events and the Python stack of each block, a
few microseconds each. A snapshot is taken at triggers only, as torch's own viewer reads it, into RUN/native/, and its blocks
go into `memory_blocks`. Out of memory a snapshot is taken without the option too: it shows how the device is cut up, not by whom.
"""

import pickle
from typing import Any, cast

import torch

from ...schemas.files.cuda_snapshot import block_groups
from ...schemas.files.layout import memory_snapshot_path
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_MOST_SNAPSHOTS = 4
_MOST_ROWS = 48


class CudaMemory(Watch):
    """Switches the history on when the device is first used, and takes snapshots. Does nothing on a machine without CUDA."""

    name = "memory-history"
    writes = ("memory_blocks",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._entries = session.options.memory_history
        self._on = False
        self._taken = 0
        self._asked = False
        """Whether it takes snapshots at all: not where it is left out."""

    def listen(self, signals: Signals) -> None:
        """Look at each step whether the device is in use, where the option asks for it."""
        self._asked = True
        if self._entries:
            signals.row_ends.connect(self.name, self._switch_on)

    def install(self, patches: Patches) -> None:
        """The history is switched off again at the end."""
        patches.later(self._switch_off)

    def _switch_on(self) -> None:
        if not self._on and torch.cuda.is_initialized() and not _recording():
            torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=self._entries)
            self._on = True

    def _switch_off(self) -> None:
        if self._on:
            torch.cuda.memory._record_memory_history(None)
            self._on = False

    def take(self, trigger: str) -> None:
        """A snapshot into RUN/native/ and into rows; a few in a run at most."""
        if not self._asked or not torch.cuda.is_initialized() or self._taken >= _MOST_SNAPSHOTS:
            return
        if not self._on and trigger != "oom":
            return
        self._taken += 1
        session = self.session
        snapshot = cast("dict[str, Any]", torch.cuda.memory._snapshot())
        for row in block_groups(snapshot.get("segments"))[:_MOST_ROWS]:
            session.rows.add("memory_blocks", trigger=trigger, **row)
        path = memory_snapshot_path(session.run, session.catalogue.rank, trigger, session.position.step)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            pickle.dump(snapshot, file)


def _recording() -> bool:
    """Whether the script records the history itself: its settings are left as they are."""
    enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    return bool(enabled()) if enabled is not None else False
