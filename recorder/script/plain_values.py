"""Values of a script's expressions, read from a frame without running any code of the script but ``len()`` of its data.

Names, plain attributes, arithmetic and a few functions; what is anything else raises UnknownError.
"""

import ast
import builtins
import inspect
import itertools
import math
import operator
import types
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_OF_NUMBERS = (int, min, max, round, abs, math.ceil, math.floor)
_CONTAINERS = (list, tuple, dict, set, frozenset, str, range, deque)
_AS_LONG = (enumerate, reversed, sorted, list, tuple)
"""Functions that give as many items as their first argument has."""
_PERMUTATIONS = (torch.randperm, torch.arange)
_LARGEST = 10**15


class UnknownError(Exception):
    """It cannot be told."""


def number(node: ast.expr, frame: FrameType) -> int | float:
    """The number that an expression is."""
    found = value(node, frame)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not abs(found) < _LARGEST:
        raise UnknownError
    return found


def value(node: ast.expr, frame: FrameType) -> Any:
    """What an expression is."""
    match node:
        case ast.Constant(value=found):
            return found
        case ast.Name(id=name):
            return _named(name, frame)
        case ast.Attribute(value=held, attr=name):
            return _attribute(value(held, frame), name)
        case ast.Subscript(value=held, slice=ast.Constant(value=key)):
            return _item(value(held, frame), key)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -number(operand, frame)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            try:
                return _ARITHMETIC[type(op)](number(left, frame), number(right, frame))
            except ArithmeticError as e:
                raise UnknownError from e
        case ast.Call(func=func, args=[*args], keywords=[]) if not any(isinstance(a, ast.Starred) for a in args):
            function = value(func, frame)
            if function is len and len(args) == 1:
                return length(args[0], frame)
            if any(function is known for known in _OF_NUMBERS):
                try:
                    return function(*(number(a, frame) for a in args))
                except (TypeError, ValueError, OverflowError) as e:
                    raise UnknownError from e
        case _:
            pass
    raise UnknownError


def length(node: ast.expr, frame: FrameType) -> float:
    """How many items an expression runs over; infinite for ``itertools.cycle`` and ``count``."""
    if not isinstance(node, ast.Call):
        return length_of(value(node, frame))
    args = node.args
    if any(isinstance(a, ast.Starred) for a in args):
        raise UnknownError
    parts = _parts(node, frame)
    if parts is not None:
        return parts
    function = value(node.func, frame)
    if function is range and not node.keywords:
        return _of_range([number(a, frame) for a in args])
    if any(function is known for known in _AS_LONG) and args:
        return length(args[0], frame)
    if function is zip and args:
        return min(length(a, frame) for a in args)
    if function is itertools.cycle or function is itertools.count:
        return math.inf
    if function is itertools.islice and len(args) == 2:
        return min(length(args[0], frame), number(args[1], frame))
    if _is_progress(function) and args:
        return number(args[0], frame) if getattr(function, "__name__", "") == "trange" else length(args[0], frame)
    if any(function is known for known in _PERMUTATIONS) and len(args) == 1:
        return number(args[0], frame)
    raise UnknownError


def _of_range(bounds: list[int | float]) -> int:
    if not bounds or any(isinstance(b, float) for b in bounds):
        raise UnknownError
    try:
        return len(range(*bounds))  # type: ignore[arg-type]
    except (TypeError, ValueError) as e:
        raise UnknownError from e


def length_of(found: Any) -> float:
    """How many items a value holds. The length of a data set, a sampler or a DataLoader is asked of it."""
    if type(found) in _CONTAINERS:
        return len(found)
    if isinstance(found, torch.Tensor):
        if found.dim() == 0:
            raise UnknownError
        return found.shape[0]
    if (type(found).__module__, type(found).__name__) == ("numpy", "ndarray") and found.ndim:
        return found.shape[0]
    if _is_progress(type(found)):
        return length_of(vars(found).get("iterable"))
    streams = isinstance(found, IterableDataset) or isinstance(getattr(found, "dataset", None), IterableDataset)
    if not streams and isinstance(found, (DataLoader, Sampler, Dataset)):
        try:
            return len(found)  # type: ignore[arg-type]
        except Exception as e:  # of a stranger's class
            raise UnknownError from e
    raise UnknownError


def names(node: ast.AST, frame: FrameType) -> Iterator[str]:
    """Names on which the value of an expression rests. Of ``x.chunk(k)`` with many more rows than ``k`` it is ``k`` alone."""
    match node:
        case ast.Call(func=ast.Attribute(value=held, attr="chunk"), args=[count]) if not node.keywords:
            try:
                few = number(count, frame) ** 2 <= length(held, frame)
            except UnknownError:
                few = False
            if few:
                yield from names(count, frame)
                return
        case ast.Name(id=name):
            yield name
            return
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from names(child, frame)


def _parts(node: ast.Call, frame: FrameType) -> float | None:
    """Number of parts of ``x.chunk(k)`` and ``x.split(k)``; None for all else."""
    match node:
        case ast.Call(func=ast.Attribute(value=held, attr="chunk" | "split" as method), args=[count], keywords=[]):
            try:
                rows, by = length(held, frame), int(number(count, frame))
            except UnknownError:
                return None
            if rows < 1 or by < 1 or math.isinf(rows) or not _gives_tensor(held, frame):
                raise UnknownError
            return math.ceil(rows / (math.ceil(rows / by) if method == "chunk" else by))
        case _:
            return None


def _gives_tensor(node: ast.expr, frame: FrameType) -> bool:
    if isinstance(node, ast.Call):
        function = value(node.func, frame)
        return any(function is known for known in _PERMUTATIONS)
    return isinstance(value(node, frame), torch.Tensor)


def _named(name: str, frame: FrameType) -> Any:
    for held in (frame.f_locals, frame.f_globals, vars(builtins)):
        if name in held:
            return held[name]
    raise UnknownError


def _attribute(held: Any, name: str) -> Any:
    """A plain attribute: no property, nothing that a class makes up when it is asked."""
    if isinstance(held, tuple):
        fields = getattr(type(held), "_fields", ())
        if name in fields:
            return tuple.__getitem__(held, fields.index(name))
        raise UnknownError
    try:
        found = inspect.getattr_static(held, name)
    except (AttributeError, TypeError) as e:
        raise UnknownError from e
    if isinstance(found, types.MemberDescriptorType):
        try:
            return found.__get__(held)
        except AttributeError as e:
            raise UnknownError from e
    if isinstance(held, types.ModuleType) or not hasattr(type(found), "__get__"):
        return found
    raise UnknownError


def _item(held: Any, key: Any) -> Any:
    if type(held) in (dict, list, tuple):
        try:
            return held[key]
        except (KeyError, IndexError, TypeError) as e:
            raise UnknownError from e
    raise UnknownError


def _is_progress(found: Any) -> bool:
    """Whether it is tqdm or a function of its package."""
    if isinstance(found, type):
        return any(k.__module__.startswith("tqdm") and k.__name__.startswith("tqdm") for k in found.__mro__)
    return callable(found) and str(getattr(found, "__module__", "")).startswith("tqdm")
