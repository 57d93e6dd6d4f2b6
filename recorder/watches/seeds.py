"""Seeds and random states: what would have to be set again to run the same training twice."""

import ctypes
import functools
import hashlib
import sys
from collections.abc import Callable
from typing import Any

import torch

from ..session.patches import Patches
from ..session.session import Session


class RandomWatch:
    """Fills the columns of `ranks` about seeds, and ``steps.rng``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._seeded = False
        session.rank_facts.append(self._facts)
        session.at_finish.append(("random", self._state))

    def install(self, patches: Patches) -> None:
        """Note torch.manual_seed."""
        seeded = self.session.guarded("random", self._note)

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def manual_seed(seed: Any) -> Any:
                seeded(seed)
                return original(seed)

            return manual_seed

        patches.wrap(torch.random, "manual_seed", wrap)
        patches.put(torch, "manual_seed", torch.random.manual_seed)

    def _note(self, seed: Any) -> None:
        self._seeded = True
        self.session.event("seeded", f"torch.manual_seed({int(seed)})", detail={"seed": int(seed)})

    def _facts(self) -> dict[str, Any]:
        numpy: Any = sys.modules.get("numpy")
        python: Any = sys.modules.get("random")
        return {
            "seeded": self._seeded,
            "python_rng": _hash(repr(python.getstate()).encode()) if python is not None else None,
            "numpy_rng": _hash(repr(numpy.random.get_state(legacy=True)[1].tobytes()).encode())
            if numpy is not None
            else None,
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }

    def _state(self) -> None:
        state = torch.get_rng_state()
        self.session.facts["rng"] = _hash(ctypes.string_at(state.data_ptr(), state.numel()))


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
