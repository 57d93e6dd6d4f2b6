"""Seeds and random states: what would have to be set again to run the same training twice."""

import ctypes
import hashlib
import sys
from typing import Any

import torch

from ...schemas.files.step_values import Row
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch


class RandomWatch(Watch):
    """Fills the columns of `ranks` about seeds, and ``steps.rng``."""

    name = "random"
    writes = (
        "ranks.seeded",
        "ranks.python_rng",
        "ranks.numpy_rng",
        "ranks.deterministic",
        "steps.rng",
        "events:seeded",
    )

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._seeded = False

    def listen(self, signals: Signals) -> None:
        """Note the state at the beginning, and after each step."""
        signals.recording_begins.connect(self.name, self._facts)
        signals.row_ends.connect(self.name, self._state)

    def install(self, patches: Patches) -> None:
        """Note torch.manual_seed."""
        patches.around(torch.random, "manual_seed", before=self.guarded(self._note_seed), also=[torch])

    def _note_seed(self, seed: Any) -> None:
        self._seeded = True
        self.session.rows.event("seeded", f"torch.manual_seed({int(seed)})", detail={"seed": int(seed)})

    def _facts(self, row: Row) -> None:
        numpy: Any = sys.modules.get("numpy")
        python: Any = sys.modules.get("random")
        row |= {
            "seeded": self._seeded,
            "python_rng": _hash(repr(python.getstate()).encode()) if python is not None else None,
            "numpy_rng": _hash(repr(numpy.random.get_state(legacy=True)[1].tobytes()).encode())
            if numpy is not None
            else None,
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }

    def _state(self) -> None:
        state = torch.get_rng_state()
        self.session.step_row.facts["rng"] = _hash(ctypes.string_at(state.data_ptr(), state.numel()))


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
