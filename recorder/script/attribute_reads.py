"""Which attributes and global variables code reads and writes, by its instructions; and the code that objects run when they
are called, indexed or gone through, with what they call in turn. Nothing is run for this.
"""

import dis
import functools
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import torch

_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward")
"""Methods by which samples are made, changed and joined."""

_MOST_FUNCTIONS = 400
_MOST_OBJECTS = 200
_MOST_ITEMS = 32

_CHANGES = frozenset(
    {"append", "appendleft", "add", "update", "extend", "insert", "pop", "popitem", "popleft", "setdefault", "clear"}
    | {"remove", "discard", "sort", "shuffle", "fill_", "copy_", "zero_"}
)
"""Methods that change a container or a tensor."""

_KNOWN_BASES = frozenset({object, torch.nn.Module})
"""Classes with nothing of the script's in them, and much code."""


class CodeReads(NamedTuple):
    """What the instructions of one function, with those inside it, name."""

    of_self: frozenset[str]
    """Attributes of the first argument."""
    of_others: frozenset[str]
    written: frozenset[str]
    """Attributes of anything, and global variables."""
    global_names: frozenset[str]
    texts: frozenset[str]
    """Constants: keys of dictionaries, among others."""
    changes: bool
    """Whether an element is assigned, or a method called that changes a container."""


class Use(NamedTuple):
    """What the code of some objects uses."""

    read: frozenset[tuple[int, str]]
    """id() of an object, or of the global variables of a module, and the name that is read from it."""
    of_others: frozenset[str]
    """Names that are read from objects that are not known."""
    texts: frozenset[str]
    written: frozenset[str]
    changed: frozenset[str]
    """Names that are read where containers are changed."""


@functools.lru_cache(maxsize=4096)
def reads_of(code: CodeType, first: str | None) -> CodeReads:
    """What a function names; ``first`` is its first argument, which functions inside it know by the same name."""
    own: set[str] = set()
    others: set[str] = set()
    written: set[str] = set()
    names: set[str] = set()
    texts = {constant for constant in code.co_consts if isinstance(constant, str)}
    changes = False
    before: Any = None
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if name in {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}:
            (own if before == first or name == "LOAD_SUPER_ATTR" else others).add(value)
            changes |= value in _CHANGES
        elif name in {"STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL"}:
            written.add(value)
        elif name in {"LOAD_GLOBAL", "LOAD_NAME"}:
            names.add(value)
        elif name in {"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}:
            changes = True
        if name not in {"CACHE", "EXTENDED_ARG"}:
            loads = "LOAD_FAST" in name or "LOAD_DEREF" in name or name == "LOAD_CLASSDEREF"
            before = (value[-1] if isinstance(value, tuple) else value) if loads else None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more = reads_of(inner, first if first in inner.co_freevars else None)
            own |= more.of_self
            others |= more.of_others
            written |= more.written
            names |= more.global_names
            texts |= more.texts
            changes |= more.changes
    return CodeReads(frozenset(own), frozenset(others), frozenset(written), frozenset(names), frozenset(texts), changes)


def use_of(roots: Iterable[Any]) -> Use:
    """What is used when the roots are called, indexed or gone through, in a bounded walk over their code."""
    walk = _Walk()
    for root in roots:
        walk.visit(root)
    walk.follow()
    return Use(
        frozenset(walk.read),
        frozenset(walk.others),
        frozenset(walk.texts),
        frozenset(walk.written),
        frozenset(walk.changed),
    )


class _Walk:
    """Follows code from function to function, and from object to object."""

    def __init__(self) -> None:
        self.read: set[tuple[int, str]] = set()
        self.others: set[str] = set()
        self.texts: set[str] = set()
        self.written: set[str] = set()
        self.changed: set[str] = set()
        self._objects: dict[int, Any] = {}
        self._seen: set[tuple[int, int]] = set()
        self._todo: list[tuple[FunctionType, Any]] = []

    def visit(self, value: Any) -> None:
        """Something that code has in hand: it may call it, index it, or go through it."""
        if isinstance(value, FunctionType):
            self._function(value, None)
        elif isinstance(value, MethodType):
            self.visit(value.__self__)
            self._function(value.__func__, value.__self__)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self.visit(part)
        elif type(value) in {list, tuple, dict}:
            items = list(value.values() if type(value) is dict else value)[:_MOST_ITEMS]
            for item in items:
                if not issubclass(type(item), (list, tuple, dict)):
                    self.visit(item)
        elif has_attributes(value) and id(value) not in self._objects and len(self._objects) < _MOST_OBJECTS:
            self._objects[id(value)] = value
            for name in _ENTRIES:
                self._method(value, name)

    def follow(self) -> None:
        """Go on until nothing new is found."""
        while self._todo:
            while self._todo:
                self._read(*self._todo.pop())
            for value in list(self._objects.values()):
                for name in self.others:
                    self._method(value, name)
                    self.visit(attributes_of(value).get(name))

    def _function(self, function: FunctionType, owner: Any) -> None:
        key = (id(function.__code__), id(owner))
        if key not in self._seen and len(self._seen) < _MOST_FUNCTIONS:
            self._seen.add(key)
            self._todo.append((function, owner))

    def _method(self, owner: Any, name: str) -> None:
        """All definitions of a method or property in the classes of an object: one may call the next."""
        for kind in type(owner).__mro__:
            if kind not in _KNOWN_BASES:
                defined: Any = vars(kind).get(name)
                if type(defined) is property:
                    defined = defined.fget
                elif type(defined) is functools.cached_property:
                    defined = defined.func
                elif type(defined) in {staticmethod, classmethod}:
                    self._function_of(defined.__func__, None)
                    continue
                self._function_of(defined, owner)

    def _function_of(self, defined: Any, owner: Any) -> None:
        if isinstance(defined, FunctionType):
            self._function(defined, owner)

    def _read(self, function: FunctionType, owner: Any) -> None:
        code = function.__code__
        first = code.co_varnames[0] if owner is not None and code.co_argcount else None
        reads = reads_of(code, first)
        self.others |= reads.of_others
        self.texts |= reads.texts
        self.written |= reads.written
        if reads.changes:
            self.changed |= reads.of_self | reads.of_others | reads.global_names
        for cell in function.__closure__ or ():
            value = _content(cell)
            if isinstance(value, FunctionType):
                self._function(value, owner)  # a decorator's own
            else:
                self.visit(value)
        for name in reads.global_names:
            self.read.add((id(function.__globals__), name))
            value = function.__globals__.get(name)
            if isinstance(value, FunctionType):
                self._function(value, None)
        for name in reads.of_self:
            self.read.add((id(owner), name))
            self._method(owner, name)
            self.visit(attributes_of(owner).get(name))


def has_attributes(value: Any) -> bool:
    """Whether something is an object with attributes of its own: no class, no module, no function."""
    kind = type(value)
    return not issubclass(kind, (type, ModuleType, FunctionType, MethodType)) and (
        type(getattr(value, "__dict__", None)) is dict
    )


def attributes_of(value: Any) -> dict[str, Any]:
    """What an object keeps as attributes; nothing for one that has none of its own."""
    attributes = getattr(value, "__dict__", None)
    return attributes if type(attributes) is dict else {}


def closure_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Variables that a function has from where it was made."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        yield name, _content(cell)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not assigned yet
