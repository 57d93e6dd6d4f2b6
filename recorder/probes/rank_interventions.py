"""Interventions in what ranks do together: one rank alone, sums made by each rank from what all gave."""

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

import torch
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


class SumsMadeAnew(Intervention):
    """all_reduce to a sum or a mean by all_gather: each rank adds up what all of them gave."""

    def install(self, patches: Patches) -> None:
        """Wrap all_reduce."""
        if not dist.is_available():
            return

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def all_reduce(
                tensor: torch.Tensor, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
            ) -> Any:
                if not self.active or async_op or op not in {dist.ReduceOp.SUM, dist.ReduceOp.AVG}:
                    return original(tensor, op, group, async_op)
                parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
                dist.all_gather(parts, tensor.contiguous(), group=group)
                total = torch.stack(parts).sum(0)
                tensor.copy_(total / len(parts) if op == dist.ReduceOp.AVG else total)
                return None

            return all_reduce

        wrapped = wrap(dist.distributed_c10d.all_reduce)
        patches.put(dist.distributed_c10d, "all_reduce", wrapped)
        patches.put(dist, "all_reduce", wrapped)
