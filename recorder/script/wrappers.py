"""What wraps a model or a tensor: all that is known of DistributedDataParallel, FSDP, torch.compile and DTensor.

Support for a further framework begins here.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

WRAPPERS = {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"}
"""Classes that wrap a model as ``.module``; OptimizedModule of torch.compile wraps it as ``._orig_mod``."""

_PLAIN = (Tensor, torch.nn.Parameter)

_T = TypeVar("_T", Tensor, Tensor | None)


def local(x: _T) -> _T:
    """This process's shard of a DTensor, without any communication; everything else as it is.

    What is measured of sharded weights, gradients and activations is each rank's own part: ranks can be added up later.
    """
    if type(x) in _PLAIN or x is None:
        return x
    return cast("_T", getattr(x, "_local_tensor", x)) if type(x).__name__ == "DTensor" else x


class Layout(NamedTuple):
    """How a DTensor lies on its mesh, seen from this rank. Asking for it takes no communication."""

    placements: str
    mesh: str
    mesh_ranks: tuple[int, ...]
    shard_ranks: tuple[int, ...]
    replica_ranks: tuple[int, ...]
    partial: bool
    """Whether the ranks hold summands: only their sum is the tensor."""

    def columns(self) -> dict[str, object]:
        """Columns of `tensors`."""
        return {name: value for name, value in self._asdict().items() if name != "partial"}


_layouts: WeakKeyDictionary[Any, dict[Any, Layout]] = WeakKeyDictionary()
"""Mesh → placements → layout: the tensors of a model share a few."""


def layout_of(x: Tensor) -> Layout | None:
    """How a DTensor is spread over ranks; None for a plain tensor, and on a rank outside the mesh."""
    if type(x).__name__ != "DTensor":
        return None
    mesh, placements = cast("Any", x).device_mesh, cast("Any", x).placements
    known = _layouts.setdefault(mesh, {})
    if placements not in known:
        here = mesh.get_coordinate()
        if here is None:
            return None
        known[placements] = _layout(mesh, placements, here)
    return known[placements]


def _layout(mesh: Any, placements: tuple[Any, ...], here: Iterable[int]) -> Layout:
    words = [repr(p).replace("dim=", "").removesuffix("()") for p in placements]
    names = mesh.mesh_dim_names or range(len(placements))
    return Layout(
        ", ".join(words),
        ", ".join(f"{name}={size}" for name, size in zip(names, mesh.shape, strict=True)),
        tuple(mesh.mesh.flatten().tolist()),
        _ranks_along(mesh, [not p.is_replicate() for p in placements], here),
        _ranks_along(mesh, [p.is_replicate() for p in placements], here),
        any(p.is_partial() for p in placements),
    )


def _ranks_along(mesh: Any, along: list[bool], here: Iterable[int]) -> tuple[int, ...]:
    """Ranks that differ from this one in these dimensions of the mesh only."""
    place = tuple(slice(None) if a else i for a, i in zip(along, here, strict=True))
    return tuple(mesh.mesh[place].flatten().tolist())


def unwrapped(module: nn.Module) -> nn.Module:
    """The model inside DistributedDataParallel, torch.compile and the like."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and type(module).__name__ in WRAPPERS:
            inner = getattr(module, "module", None)
        if not isinstance(inner, nn.Module):
            return module
        module = inner
