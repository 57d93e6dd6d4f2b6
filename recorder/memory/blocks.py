"""Tensors that are alive, by what they are for: parameters, gradients, optimizer state, buffers, batch, graph, anything else.

Taken only at moments worth a look (growth, out of memory): a walk over all objects of the process.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ...schemas.files.step_values import Row
from ..script.wrappers import local
from ..session.registry import Catalogue
from ..tensors.moments import measurable, node_of

_MOST_ROWS = 48


class _Group:
    """Tensors of one category, shape, dtype and device."""

    __slots__ = ("count", "largest", "module", "oldest", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.largest = 0
        self.oldest: int | None = None
        self.module: int | None = None


def categories(
    catalogue: Catalogue, optimizers: Iterable[torch.optim.Optimizer], batch: Iterable[Tensor]
) -> dict[int, str]:
    """Storage → what it is for."""
    known: dict[int, str] = {}

    def add(tensor: Any, category: str) -> None:
        if isinstance(tensor, Tensor) and measurable(tensor := local(tensor)) and tensor.layout is torch.strided:
            known.setdefault(tensor.untyped_storage()._cdata, category)

    for root in catalogue.roots:
        module = root.ref()
        for parameter in module.parameters() if module is not None else ():
            add(parameter, "parameter")
            add(parameter.grad, "gradient")
        for buffer in module.buffers() if module is not None else ():
            add(buffer, "buffer")
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                add(parameter, "parameter")
                add(parameter.grad, "gradient")
        for state in list(optimizer.state.values()):
            for value in state.values() if isinstance(state, dict) else ():
                add(value, "optimizer_state")
    for tensor in batch:
        add(tensor, "batch")
    return known


def block_rows(
    tensors: Iterable[Tensor], known: dict[int, str], made: dict[int, tuple[int | None, int | None]]
) -> list[Row]:
    """Rows of `memory_blocks` without their trigger; ``made`` tells (step, module_id) of a storage, where it is known."""
    groups: dict[tuple[Any, ...], _Group] = defaultdict(_Group)
    counted: set[int] = set()
    totals: dict[torch.device, int] = defaultdict(int)
    for tensor in tensors:
        if not measurable(tensor) or tensor.layout is not torch.strided:
            continue
        storage = tensor.untyped_storage()
        size = 0 if storage._cdata in counted else storage.nbytes()
        counted.add(storage._cdata)
        totals[tensor.device] += size
        graph = node_of(tensor) is not None
        category = known.get(storage._cdata) or ("activation" if graph else "other")
        group = groups[category, tuple(tensor.shape), tensor.dtype, tensor.device]
        group.count += 1
        group.size += size
        group.largest = max(group.largest, size)
        step, module = made.get(storage._cdata, (None, None))
        if step is not None:
            group.oldest = step if group.oldest is None else min(group.oldest, step)
        group.module = module if group.module is None else group.module
    rows: list[Row] = [
        {
            "source": "python",
            "category": category,
            "shape": list(shape),
            "dtype": str(dtype).removeprefix("torch."),
            "device": str(device),
            "blocks": group.count,
            "bytes": group.size,
            "largest_bytes": group.largest,
            "oldest_step": group.oldest,
            "module_id": group.module,
        }
        for (category, shape, dtype, device), group in groups.items()
    ]
    rows += [
        {"source": "python", "category": "unseen", "device": str(device), "bytes": unseen}
        for device, seen in totals.items()
        if device.type == "cuda" and (unseen := torch.cuda.memory_allocated(device) - seen) > 0
    ]
    return sorted(rows, key=lambda row: row["bytes"], reverse=True)[:_MOST_ROWS]
