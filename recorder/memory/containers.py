"""What Python's containers hold: how long each is, what was added last, and what that takes.

The only way to see what a script gathers without watching it at work: look twice, a few steps apart, and see which lists,
dictionaries, queues and sets have become longer. A look walks over all objects that the garbage collector knows, 50 to 100 ms
for the 300,000 of a training, and keeps numbers alone: no container is held from one look to the next.
"""

import gc
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from itertools import islice
from types import CellType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..script.frames import is_users
from ..tensors.moments import measurable, node_of
from . import loaded_objects
from .owners import local_values

KINDS: dict[type, str] = {
    list: "list",
    deque: "list",
    dict: "dict",
    defaultdict: "dict",
    OrderedDict: "dict",
    Counter: "dict",
    set: "set",
}
"""Class → what is done to it: appended to, assigned into, added to."""

_SHORTEST = 3
_SAMPLE = 4
_MOST_PARTS = 64
_MOST_NAMED = 8
_MOST_DICTIONARIES = 5000
_FEW_BYTES = 4096
"""A step's worth of Python objects that is not worth a word: numbers of a history."""


class Look(NamedTuple):
    """Lengths at one moment, by id(), and how many objects of each class there are."""

    step: int
    lengths: dict[int, int]
    classes: dict[type, int]


class Content(NamedTuple):
    """What was added to a container last."""

    what: str
    """``tensor``, else the class."""
    size: int
    """Bytes of one element."""
    tensor: Tensor | None
    """The largest tensor in it: to be described at once, never kept."""
    with_graph: bool
    shared: bool = False
    """Whether a tensor in it lies in memory shared between processes: each may hold a descriptor open."""


class Grown(NamedTuple):
    """A container that became longer from one look to the next."""

    container: Any
    kind: str
    length: int
    rate: float
    """Elements a step."""
    content: Content


def look(step: int, tensor_classes: set[type]) -> tuple[Look, list[Any], list[Tensor]]:
    """The lengths now, the containers themselves and all tensors: both to be let go of before the training goes on."""
    objects = gc.get_objects()
    classes: Counter[type] = Counter(map(type, objects))
    script = {kind for kind in classes if is_users(_file(sys.modules.get(kind.__module__)))} | {CellType}
    wanted = KINDS.keys() | tensor_classes | script
    objects = [
        o for o in objects if type(o) in wanted
    ]  # a tenth of all: one pass over everything, not one for each question
    containers = [o for o in objects if type(o) in KINDS]
    containers += _untracked([o for o in objects if type(o) in script])
    containers += _set_aside(containers)
    lengths = {id(o): n for o in containers if (n := len(o)) >= _SHORTEST}
    return Look(step, lengths, dict(classes)), containers, [o for o in objects if type(o) in tensor_classes]


def _set_aside(found: list[Any]) -> list[Any]:
    """Global variables of the script that are older than its import of torch: the garbage collector leaves them alone
    (loaded_objects.py)."""
    if not loaded_objects.are_set_aside():
        return []
    known = {id(o) for o in found}
    return [o for o in gc.get_referents(*_globals_of_users()) if type(o) in KINDS and id(o) not in known]


def _globals_of_users() -> list[dict[str, Any]]:
    """Of the script and its own modules. At its end Python has taken the script's file out of its module."""
    main = sys.modules.get("__main__")
    modules = [m for m in list(sys.modules.values()) if type(m) is ModuleType]
    return [vars(m) for m in modules if m is main or is_users(_file(m))]


def _untracked(owners: list[Any]) -> list[Any]:
    """Dictionaries that hold nothing but numbers, texts and arrays: the garbage collector leaves them alone, but not what they
    are an attribute, a global variable or an element of."""
    first = local_values() + gc.get_referents(*_globals_of_users(), *owners)
    more = gc.get_referents(*[o for o in first if type(o) in KINDS][:_MOST_DICTIONARIES])
    return list({id(o): o for o in (*first, *more) if type(o) is dict and not gc.is_tracked(o)}.values())


def _file(module: ModuleType | None) -> str:
    file = getattr(module, "__file__", None)
    return file if isinstance(file, str) else "<frozen>"


def grown(before: Look, now: Look, containers: Iterable[Any], known: frozenset[int]) -> list[Grown]:
    """What became longer, by half an element a step or more, those that take most first; ``known`` are storages of weights,
    which nobody gathers."""
    steps = max(now.step - before.step, 1)
    found: list[Grown] = []
    for container in containers:
        length = now.lengths.get(id(container))
        # a container that was not there is a new one, or was too short to count
        rate = ((length or 0) - before.lengths.get(id(container), 0)) / steps
        if length is None or rate < 0.5 or rate > length:
            continue
        content = last_of(container, known)
        if content is not None and (content.with_graph or content.shared or content.size * rate >= _FEW_BYTES):
            found.append(Grown(container, KINDS[type(container)], length, rate, content))
    found.sort(key=lambda g: (g.content.with_graph, g.rate * g.content.size), reverse=True)
    return found[:_MOST_NAMED]


def last_of(container: Any, known: frozenset[int]) -> Content | None:
    """What was added to it last: the median size of a few elements; None for an empty one, or one that changes meanwhile."""
    try:
        if isinstance(container, list):
            elements = container[-_SAMPLE:]
        elif isinstance(container, dict):
            elements = list(islice(reversed(container.values()), _SAMPLE))
        elif isinstance(container, deque):
            elements = list(islice(reversed(container), _SAMPLE))
        else:
            elements = list(islice(container, _SAMPLE))
    except RuntimeError:
        return None  # another thread adds to it
    if not elements:
        return None
    described = sorted((_content(e, known) for e in elements), key=lambda c: c.size)
    return described[len(described) // 2]


def _content(element: Any, known: frozenset[int]) -> Content:
    tensors: list[Tensor] = []
    size = _size(element, tensors, 2, known)
    largest = max(tensors, key=lambda t: t.numel(), default=None)
    what = "tensor" if largest is not None else type(element).__name__
    shared = any(t.is_cpu and t.is_shared() for t in tensors)
    return Content(what, size, largest, any(node_of(t) is not None for t in tensors), shared)


def _size(value: Any, tensors: list[Tensor], depth: int, known: frozenset[int]) -> int:
    """Bytes that a value takes, with what it holds down to a depth; no method of a script's class is called."""
    if isinstance(value, Tensor):
        if not measurable(value) or value.layout is not torch.strided:
            return 0
        storage = value.untyped_storage()
        if storage._cdata in known:
            return 0
        tensors.append(value)
        return storage.nbytes()
    kind = type(value)
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy":
        base = value.base
        return int((base if type(base) is kind else value).nbytes)
    if kind in {bytes, bytearray, str, int, float, complex, bool, type(None)}:
        return sys.getsizeof(value)
    if depth == 0 or kind in {type, type(gc)} or callable(value):
        return 64
    if kind in KINDS or kind in {tuple, frozenset}:
        parts = list(islice(value.values() if isinstance(value, dict) else value, _MOST_PARTS))
        share = len(value) / max(len(parts), 1)
        return sys.getsizeof(value) + round(share * sum(_size(p, tensors, depth - 1, known) for p in parts))
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict:
        parts = list(islice(attributes.values(), _MOST_PARTS))
        return 64 + sys.getsizeof(attributes) + sum(_size(p, tensors, depth - 1, known) for p in parts)
    return 64


def classes_grown(before: Look, now: Look, least: int) -> tuple[type, int] | None:
    """Class of which there are most more than before, and how many; None below ``least``."""
    kind, count = max(
        ((k, n - before.classes.get(k, 0)) for k, n in now.classes.items()), key=lambda kn: kn[1], default=(object, 0)
    )
    return (kind, count) if count >= least else None
