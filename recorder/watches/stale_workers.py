"""What changes in the main process after the workers of a loader were started, and never reaches them: ``set_epoch`` of a
dataset, a curriculum's difficulty, a mix-up that is switched off.

A worker is a copy of the process. With ``persistent_workers=True`` it goes on with the copy of the first pass. So the plain
attributes of the dataset, and of what it holds, are noted when the workers are started, and compared when a later pass begins.
An attribute counts where the code that makes samples reads it and does not write it. No values but numbers are kept.
"""

import hashlib
import sys
import weakref
from collections.abc import Iterator
from itertools import islice
from time import perf_counter_ns
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..loop.dataloaders import LoaderWatch
from ..script.attribute_reads import Use, attributes_of, closure_of, has_attributes, use_of
from ..script.frames import is_users
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch

_MOST_OBJECTS = 200
_MOST_NAMES = 64
_MOST_GLOBALS = 512
_MOST_ITEMS = 32
_MOST_ELEMENTS = 1024
"""Elements at the beginning of a list or an array that are compared."""

_DEPTH = 4
_MOST_TOLD = 8
"""Attributes of one loader of which an event is written."""

_FREE = 16
_SHARE = 0.001
"""Of the run's time that all comparisons may take, after so many that are free."""

_LEFT_ALONE = ("multiprocessing", "ctypes", "threading", "logging", "random", "weakref")
"""Packages whose objects are not looked into: what processes share, what is no setting."""


class Fact(NamedTuple):
    """What is noted of an attribute: two facts that differ are a change."""

    kind: str
    """``number``, ``text``, ``content`` or ``object``."""
    value: Any
    """A number; of anything else a hash, or the name of a class."""


class _Place(NamedTuple):
    """Where an attribute is found."""

    owner: int
    """id() of the object, or of the global variables of a module."""
    name: str
    nested: bool
    """Whether its object is one that a dataset holds, and no dataset itself."""
    fact: Fact


class _Started:
    """Workers of one loader that live on."""

    __slots__ = ("at_start", "passes", "told")

    def __init__(self, at_start: dict[str, Fact]) -> None:
        self.at_start = at_start
        self.passes = 0
        self.told: set[str] = set()
        """Attributes that were written or found to be none of the workers' business."""


class StaleWorkers(Watch):
    """Writes an event ``stale-worker-state`` for each attribute that workers read and that has changed since they began."""

    name = "stale-workers"
    writes = ("events:stale-worker-state",)
    uses = ("loader",)

    def __init__(self, session: Session, loaders: LoaderWatch) -> None:
        super().__init__(session)
        self._loaders = loaders
        self._started: weakref.WeakKeyDictionary[Any, _Started] = weakref.WeakKeyDictionary()
        self._began = perf_counter_ns()
        self._spent = 0
        self._looks = 0

    def install(self, patches: Patches) -> None:
        """Be told of each pass over a loader."""
        patches.around(DataLoader, "__iter__", after=self.guarded(self._begins))

    def _begins(self, _note: Any, iterator: Any, loader: Any) -> None:
        if not loader.num_workers or not getattr(loader, "persistent_workers", False):
            return
        began = perf_counter_ns()
        if self._looks >= _FREE and self._spent > _SHARE * (began - self._began):
            return
        self._looks += 1
        started = self._started.get(iterator)
        now = places_of(loader)
        if started is None:
            self._started[iterator] = _Started({path: place.fact for path, place in now.items()})
        else:
            started.passes += 1
            self._compare(started, now, iterator, loader)
        self._spent += perf_counter_ns() - began

    def _compare(self, started: _Started, now: dict[str, _Place], iterator: Any, loader: Any) -> None:
        changed = {
            path: (before, place)
            for path, place in now.items()
            if (before := started.at_start.get(path)) is not None and before != place.fact and path not in started.told
        }
        where = self._loaders.place_of(iterator)
        if not changed or where is None or len(started.told) >= 8 * _MOST_TOLD:
            return
        use = use_of([loader.dataset, loader.collate_fn])
        told = 0
        for path, (before, place) in changed.items():
            started.told.add(path)
            if told < _MOST_TOLD and _is_read(place, use):
                told += 1
                self._write(path, before, place, where, loader)

    def _write(self, path: str, before: Fact, place: _Place, where: tuple[int, int], loader: Any) -> None:
        detail = {
            "loader_id": where[0],
            "epoch": where[1],
            "workers": int(loader.num_workers),
            "path": path,
            "dataset": type(loader.dataset).__name__,
            "kind": place.fact.kind,
        }
        if before.kind == place.fact.kind == "number":
            detail |= {"before": before.value, "after": place.fact.value}
        self.session.rows.event(
            "stale-worker-state", f"{path} has changed since the workers of a loader were started", detail=detail
        )


def _is_read(place: _Place, use: Use) -> bool:
    """Whether workers read an attribute, and leave it as it is."""
    if place.name in use.written or (place.fact.kind == "content" and place.name in use.changed):
        return False
    by_others = place.name in use.of_others or place.name in use.texts
    return (place.owner, place.name) in use.read or (place.nested and by_others)


def places_of(loader: Any) -> dict[str, _Place]:
    """Plain attributes of a loader's dataset and collate_fn and of what they hold, by the way to each; and global variables of
    the modules of the script in which their classes are."""
    found: dict[str, _Place] = {}
    seen: set[int] = set()
    modules: dict[str, Any] = {}
    todo: list[tuple[str, Any, int]] = [("dataset", loader.dataset, 0), ("collate_fn", loader.collate_fn, 0)]
    for path, value, depth in todo:  # grows as it goes
        if id(value) in seen or len(seen) >= _MOST_OBJECTS:
            continue
        seen.add(id(value))
        home = str(value.__module__ if isinstance(value, FunctionType) else type(value).__module__)
        if home.partition(".")[0] in _LEFT_ALONE:
            continue
        if (module := sys.modules.get(home)) is not None and is_users(getattr(module, "__file__", None) or "<"):
            modules[home] = module
        nested = not isinstance(value, Dataset)
        for name, way, part in _parts(path, value):
            fact = fact_of(part)
            if fact is not None:
                found[way] = _Place(id(value), name, nested, fact)
            if depth < _DEPTH and _holds_more(part):
                todo.append((way, part, depth + 1))
    for home, module in modules.items():
        for name, value in islice(list(vars(module).items()), _MOST_GLOBALS):
            if type(value) in {int, float, bool}:
                way = f"global variable {name} of {home}"
                found[way] = _Place(id(vars(module)), name, False, Fact("number", value))
    return found


def _holds_more(value: Any) -> bool:
    return type(value) in {list, tuple, dict} or isinstance(value, FunctionType) or has_attributes(value)


def _parts(path: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """(name, way, value) of what an object, a container or a function holds."""
    if type(value) in {list, tuple}:
        for i, item in enumerate(value[:_MOST_ITEMS]):
            if _holds_more(item):
                yield "", f"{path}[{i}]", item
    elif type(value) is dict:
        for key, item in islice(list(value.items()), _MOST_ITEMS):
            if isinstance(key, str):
                yield key, f"{path}[{key!r}]", item
    elif isinstance(value, FunctionType):
        for name, item in closure_of(value):
            yield name, f"{path}.{name}", item
    elif not isinstance(value, Tensor):
        for name, item in islice(list(attributes_of(value).items()), _MOST_NAMES):
            yield name, f"{path}.{name}", item


def fact_of(value: Any) -> Fact | None:
    """What is noted of a value; None for what processes may share, and for what says nothing."""
    numpy: Any = sys.modules.get("numpy")
    if type(value) in {int, float, bool}:
        return Fact("number", "nan" if value != value else value)  # noqa: PLR0124 — NaN
    if numpy is not None and issubclass(type(value), numpy.generic):
        return fact_of(value.item())
    if type(value) is str:
        return Fact("text", _hash(value))
    if value is None:
        return Fact("object", "None")
    if issubclass(type(value), Tensor):
        return _of_tensor(value)
    if numpy is not None and type(value) is numpy.ndarray:
        owns = value.flags.owndata or (type(value.base) is numpy.ndarray and value.base.flags.owndata)
        plain = owns and value.dtype.kind in "biuf" and value.flags.c_contiguous
        return Fact("content", _hash(value.shape, value.reshape(-1)[:_MOST_ELEMENTS].tobytes())) if plain else None
    if type(value) in {list, tuple}:
        head = [_plain(item) for item in value[:_MOST_ELEMENTS]]
        return Fact("content", _hash(len(value), *head))
    if isinstance(value, FunctionType):
        return Fact("object", f"{value.__module__}.{value.__qualname__}")
    return Fact("object", f"{type(value).__module__}.{type(value).__qualname__}") if has_attributes(value) else None


def _of_tensor(tensor: Tensor) -> Fact | None:
    plain = type(tensor) is Tensor and tensor.device.type == "cpu" and tensor.layout is torch.strided
    if not plain or tensor.is_shared() or not tensor.is_contiguous() or tensor.requires_grad or tensor.is_complex():
        return None
    if tensor.numel() == 1:
        return fact_of(tensor.item())
    head = tensor.reshape(-1)[:_MOST_ELEMENTS].contiguous().view(torch.uint8) if tensor.numel() else tensor
    return Fact("content", _hash(tuple(tensor.shape), head.numpy().tobytes()))


def _plain(item: Any) -> Any:
    """What of an element is compared: numbers, texts, pairs of them; the class of anything else."""
    if type(item) in {int, float, bool, str}:
        return item
    if type(item) is tuple and len(item) <= 4:
        return tuple(_plain(part) for part in item)
    return type(item).__qualname__


def _hash(*parts: Any) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else repr(part).encode(errors="replace"))
        digest.update(b"\0")
    return digest.hexdigest()
