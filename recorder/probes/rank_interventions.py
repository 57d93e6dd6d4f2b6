"""The intervention in who trains: one rank alone."""

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from ..session.patches import Patches
from .optimizer_interventions import Intervention


class OneRank(Intervention):
    """Rank 0 in a process group of its own; the other ranks end where they would have joined it."""

    def install(self, patches: Patches) -> None:
        """Wrap init_process_group."""
        if not dist.is_available():
            return

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def init(*args: Any, **kwargs: Any) -> Any:
                given = inspect.signature(original).bind(*args, **kwargs)
                rank = int(given.arguments.get("rank", -1))
                if (rank if rank >= 0 else int(os.environ.get("RANK", "0"))) > 0:
                    raise SystemExit(0)
                given.arguments |= {"rank": 0, "world_size": 1}
                os.environ["WORLD_SIZE"] = "1"
                return original(*given.args, **given.kwargs)

            return init

        patches.wrap(dist, "init_process_group", wrap)
