"""Writes a capture folder: tensors in files that torch.load(weights_only=True) reads, bounded in size, whole or not there."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...schemas import CaptureMeta, write_meta
from ...schemas.files.call_recipe import PLAN_JSON, CallPlan, write_plan
from ...schemas.files.layout import CAPTURES
from ..tensors.moments import measurable

MOST_BYTES = 512 * 1024 * 1024
"""Of the tensors in one capture."""

_FREE_SHARE = 0.5
"""Of the free space of the disk, at most."""

_MOST_TEXT = 10_000


def free_name(run: Path, name: str) -> str:
    """The name, or the next one that is free: an attempt before this one may have captured the same step."""
    taken, count = name, 2
    while (run / CAPTURES / taken).exists():
        taken, count = f"{name}-{count}", count + 1
    return taken


class CaptureFolder:
    """One capture being written, below RUN/captures/, under a name of its own until it is whole."""

    def __init__(self, run: Path, meta: CaptureMeta) -> None:
        self.meta = meta
        self.path = run / CAPTURES / meta.capture
        self._tmp = self.path.with_name(f".{meta.capture}.tmp")
        shutil.rmtree(self._tmp, ignore_errors=True)
        self._tmp.mkdir(parents=True)
        self._left = min(MOST_BYTES, int(shutil.disk_usage(self._tmp).free * _FREE_SHARE))

    def save(self, file: str, what: str, content: Any, *, most: int | None = None) -> None:
        """Save tensors, and containers of them, as far as there is room (and at most ``most`` bytes); what stays out is named
        in the meta. Where nothing is left nothing is written."""
        room = self._left if most is None else min(self._left, most)
        taken = _Taken(room, self.meta.missing)
        kept = taken.take(content, file.removesuffix(".pt"))
        if not taken.tensors:
            return
        path = self._tmp / file
        torch.save(kept, path)
        self._left -= room - taken.room
        self.meta.files[file] = what
        self.meta.bytes += path.stat().st_size

    def save_whole(self, file: str, what: str, content: Any) -> None:
        """Save all of it, whatever its size: a checkpoint with a hole is none."""
        path = self._tmp / file
        torch.save(content, path)
        self.meta.files[file] = what
        self.meta.bytes += path.stat().st_size

    def save_plan(self, plan: CallPlan) -> None:
        """Save how the captured call is made again."""
        write_plan(self._tmp, plan)
        self.meta.files[PLAN_JSON] = "how that call is made again: firstfault mre"

    def finish(self) -> None:
        """Write the meta and give the folder its name."""
        write_meta(self._tmp, self.meta)
        self._tmp.rename(self.path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self._tmp, ignore_errors=True)


class _Taken:
    """Copies on the host, as long as there is room."""

    def __init__(self, room: int, missing: list[str]) -> None:
        self.room = room
        self.missing = missing
        self.tensors = 0

    def take(self, value: Any, name: str, depth: int = 0) -> Any:
        """The value as weights_only can read it; None for what stays out."""
        if isinstance(value, Tensor):
            return self._tensor(value, name)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return value[:_MOST_TEXT]
        if depth < 6:
            if isinstance(value, Mapping):
                return {
                    k if isinstance(k, (str, int)) else str(k): self.take(v, f"{name}.{k}", depth + 1)
                    for k, v in value.items()
                }
            if isinstance(value, (tuple, list)):
                return [self.take(v, f"{name}[{i}]", depth + 1) for i, v in enumerate(value)]
        self.missing.append(f"{name}: {type(value).__name__} is not saved")
        return None

    def _tensor(self, tensor: Tensor, name: str) -> Tensor | None:
        if not measurable(tensor):
            self.missing.append(f"{name}: a tensor of type {type(tensor).__name__} is not saved")
            return None
        size = tensor.numel() * tensor.element_size() if tensor.layout is torch.strided else tensor._nnz() * 32
        if size > self.room:
            self.missing.append(f"{name}: {size} bytes do not fit")
            return None
        self.room -= size
        self.tensors += 1
        with torch.no_grad():
            return tensor.detach().to("cpu", copy=True).contiguous()
