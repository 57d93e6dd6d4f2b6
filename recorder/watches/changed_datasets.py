"""Whether reading a dataset changes it: entries kept in memory that ``__getitem__`` transforms in place.

Only the first batch of a pass is looked at, in loaders without workers. What the dataset keeps for the samples of that batch is
copied before they are read, and compared afterwards, with what was read too. No sample is ever read for this, and nothing is
called that the script has written: entries are taken from lists, arrays and tensors only.
"""

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from ..loop.batches import tensor_fields
from ..loop.dataloaders import LoaderWatch
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch

_MOST_SAMPLES = 4
"""Samples of a batch whose entries are compared."""

_MOST_ENTRIES = 16
"""Arrays and tensors that are compared for one sample."""

_MOST_ELEMENTS = 1 << 16
"""Elements of an entry above which it is left alone."""

_MOST_PASSES = 8
"""Passes over one loader that are looked at."""

_DEPTH = 3


class Kept(NamedTuple):
    """An array of what a dataset keeps for one sample."""

    path: str
    """Such as ``data[i][1].boxes``: the same for every sample."""
    now: Tensor
    """Shares its memory with the dataset."""
    before: Tensor


class ChangedDatasets(Watch):
    """Writes an event ``dataset-changed`` for a pass in whose first batch reading samples has changed what the dataset keeps."""

    name = "changed-datasets"
    writes = ("events:dataset-changed",)
    uses = ("loader",)

    def __init__(self, session: Session, loaders: LoaderWatch) -> None:
        super().__init__(session)
        self._loaders = loaders

    def install(self, patches: Patches) -> None:
        """Be told of each pass over a loader."""
        patches.around(DataLoader, "__iter__", after=self.guarded(self._begins))

    def _begins(self, _note: Any, iterator: Any, loader: Any) -> None:
        """The next batch of this iterator goes through functions of its own, and no further one."""
        place = self._loaders.place_of(iterator)
        if loader.num_workers or place is None or place[1] >= _MOST_PASSES:
            return
        if "_next_data" in vars(iterator) or "_next_index" in vars(iterator):
            return
        dataset, kind = loader.dataset, type(iterator)
        kept: list[list[Kept]] = []
        note = self.guarded(lambda index: kept.extend(_kept(dataset, index)))
        compare = self.guarded(lambda batch: self._compare(kept, batch, place))

        def next_index() -> Any:
            del iterator._next_index
            index = kind._next_index(iterator)
            note(index)
            return index

        def next_data() -> Any:
            del iterator._next_data
            batch = kind._next_data(iterator)
            compare(batch)
            kept.clear()
            return batch

        iterator._next_index, iterator._next_data = next_index, next_data

    def _compare(self, kept: list[list[Kept]], batch: Any, place: tuple[int, int]) -> None:
        changed = [(i, entry) for i, sample in enumerate(kept) for entry in sample if _differ(entry.now, entry.before)]
        if not changed:
            return
        fields = [(name, field) for name, field in tensor_fields(batch) if field.dim()]
        for path in dict.fromkeys(entry.path for _, entry in changed):
            mine = [(i, entry) for i, entry in changed if entry.path == path]
            name, read = _read_as(mine, fields)
            first = mine[0][1]
            self.session.rows.event(
                "dataset-changed",
                f"reading samples has changed {path} of the dataset",
                detail={
                    "loader_id": place[0],
                    "epoch": place[1],
                    "path": path,
                    "field": name,
                    "read": read,
                    "samples": len(kept),
                    "changed": len(mine),
                    "before": _size(first.before),
                    "after": _size(first.now),
                },
            )


def _kept(dataset: Any, index: Any) -> Iterator[list[Kept]]:
    """What the dataset keeps for the first samples of a batch, in their order."""
    while type(dataset) is Subset and isinstance(index, list):
        index = [dataset.indices[i] for i in index[:_MOST_SAMPLES]]
        dataset = dataset.dataset
    if not isinstance(index, list) or not hasattr(dataset, "__dict__"):
        return
    for i in index[:_MOST_SAMPLES]:
        if not isinstance(i, int):
            return
        found: list[tuple[str, Tensor]] = []
        for name, value in vars(dataset).items():
            entry = _entry(value, i)
            if entry is not None:
                found += _arrays(entry, f"{name}[i]", _DEPTH)
        yield [Kept(path, now, now.clone()) for path, now in found[:_MOST_ENTRIES]]


def _entry(value: Any, i: int) -> Any:
    """The i-th entry of a container of a known kind; None where there is none."""
    numpy: Any = sys.modules.get("numpy")
    if type(value) in {list, tuple, Tensor} or (numpy is not None and type(value) is numpy.ndarray):
        whole = value if type(value) in {list, tuple} else value.shape
        if len(whole) and -len(value) <= i < len(value):
            return value[i]
    return value.get(i) if type(value) is dict else None


def _arrays(entry: Any, path: str, depth: int) -> Iterator[tuple[str, Tensor]]:
    """Arrays and tensors of floating point numbers within an entry, as tensors that share their memory.

    A single number may count or weigh what is read."""
    if type(entry) is Tensor:
        if _comparable(entry):
            yield path, entry.detach()
    elif (shared := _shared(entry)) is not None:
        yield path, shared
    elif depth and type(entry) in {list, tuple}:
        for j, item in enumerate(entry[:_MOST_ENTRIES]):
            yield from _arrays(item, f"{path}[{j}]", depth - 1)
    elif depth and type(entry) is dict:
        for key, item in list(entry.items())[:_MOST_ENTRIES]:
            yield from _arrays(item, f"{path}.{key}" if isinstance(key, str) else f"{path}[{key}]", depth - 1)


def _comparable(tensor: Tensor) -> bool:
    return (
        tensor.is_floating_point()
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and 1 < tensor.numel() <= _MOST_ELEMENTS
    )


def _shared(entry: Any) -> Tensor | None:
    """An array of floating point numbers as a tensor of the same memory; None for anything else."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or type(entry) is not numpy.ndarray or not 1 < entry.size <= _MOST_ELEMENTS:
        return None
    known = entry.dtype.kind == "f" and entry.dtype.itemsize in {4, 8} and entry.dtype.isnative
    if not known or not entry.flags.writeable or any(stride < 0 for stride in entry.strides):
        return None
    return torch.from_numpy(entry)


def _differ(now: Tensor, before: Tensor) -> bool:
    return not torch.equal(now.nan_to_num(), before.nan_to_num())


def _read_as(changed: list[tuple[int, Kept]], fields: list[tuple[str, Tensor]]) -> tuple[str | None, int]:
    """Field of the batch that holds the changed entries as they are now, and for how many of the samples."""
    found = [(sum(_holds(field, i, entry.now) for i, entry in changed), name) for name, field in fields]
    read, name = max(found, key=lambda f: f[0], default=(0, None))
    return (name, read) if read else (None, 0)


def _holds(field: Tensor, i: int, now: Tensor) -> bool:
    """Whether a sample of a field is an entry, but for its shape and precision."""
    if i >= field.shape[0] or field.device.type != "cpu" or field.layout is not torch.strided:
        return False
    row = field.detach()[i]
    return row.numel() == now.numel() and bool(
        torch.isclose(row.double().reshape(-1), now.double().reshape(-1), rtol=1e-5, equal_nan=True).all()
    )


def _size(tensor: Tensor) -> float:
    """Root mean square."""
    return float(tensor.double().square().mean().sqrt())
