"""Lengths of what a script makes anew in each pass: a shuffled order, and what a generator function of its own hands out.

Nothing of the script is run. Where a length cannot be told for certain, UnknownError is raised.
"""

import ast
import contextlib
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, cast

import torch

from .frame_source import LoopNode, enclosing, tree_of
from .plain_values import UnknownError, length, names, number, value
from .source_nodes import dotted, inside

_SAME_LENGTH = frozenset({"tolist", "to", "cpu", "cuda", "numpy", "clone"})
_GROWS = frozenset(
    {"append", "appendleft", "extend", "insert", "add", "push", "store", "put", "pop", "popleft", "remove", "clear"}
)
_LARGEST = 10**9
_WRAPPERS = frozenset({"enumerate", "tqdm", "trange", "list", "iter"})


@dataclass(slots=True)
class _Called:
    """What a frame of a function would hold when it begins."""

    f_locals: dict[str, Any]
    f_globals: dict[str, Any]
    f_code: CodeType
    f_lineno: int


def grown(frame: FrameType) -> set[str]:
    """What the loops around the current line put something into, or take it out of, as a memory of what was played."""
    loops = (n for n in enclosing(frame)[1] if isinstance(n, LoopNode))
    calls = (n.func for loop in loops for n in ast.walk(loop) if isinstance(n, ast.Call))
    return {dotted(f.value) for f in calls if isinstance(f, ast.Attribute) and f.attr in _GROWS} - {""}


def rests_in_order(node: ast.expr, frame: FrameType) -> ast.expr:
    """On which expression the length of a permutation rests: ``randperm(n, …)``, ``arange(n)``, ``rng.permutation(x)``."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call() as held, attr=method)) if method in _SAME_LENGTH:
            return rests_in_order(held, frame)
        case ast.Call(func=ast.Attribute(attr="permutation"), args=[first], keywords=[]):
            return first
        case ast.Call(func=func, args=[first]):
            function = value(func, frame)
            if function is torch.randperm or function is torch.arange:
                return first
        case _:
            pass
    raise UnknownError


def made_anew(name: str, scope: ast.AST, frame: FrameType) -> list[ast.expr]:
    """On which expressions the length of a name rests that is assigned a permutation and nothing else."""
    stored = [n for n in inside(scope) if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]
    given = [
        n.value
        for n in inside(scope)
        if isinstance(n, ast.Assign) and len(n.targets) == 1 and any(n.targets[0] is s for s in stored)
    ]
    if not stored or len(stored) != len(given):
        raise UnknownError
    return [rests_in_order(part, frame) for whole in given for part in _branches(whole)]


def _branches(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from _branches(node.body)
        yield from _branches(node.orelse)
    else:
        yield node


def of_generator(node: ast.expr, frame: FrameType) -> tuple[float, list[ast.expr]]:
    """How often a call of a generator function yields, and the arguments on which that rests."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _WRAPPERS and node.args:
        node = node.args[0]
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise UnknownError
    function = value(node.func, frame)
    if not isinstance(function, types.FunctionType) or not inspect.isgeneratorfunction(function):
        raise UnknownError
    made, arguments = _called(node, function, frame)
    scope = _source_of(function)
    loop = _only_loop(scope)
    rests: dict[str, ast.expr] = {}
    for name in names(loop.iter, made):
        _follow(name, scope, made, arguments, rests, set())
    return length(loop.iter, made), list(rests.values())


def _follow(
    name: str,
    scope: ast.AST,
    made: FrameType,
    arguments: dict[str, ast.expr],
    rests: dict[str, ast.expr],
    above: set[str],
) -> None:
    """Bind a name of the function that a length rests on, and note the arguments that it comes from."""
    if name in above:
        raise UnknownError
    if not any(isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load) for n in inside(scope)):
        if name in arguments:
            rests[name] = arguments[name]
        return
    if name in made.f_code.co_varnames[: made.f_code.co_argcount + made.f_code.co_kwonlyargcount]:
        raise UnknownError  # a parameter that the function changes
    given = [n for n in inside(scope) if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == name]
    parts: list[ast.expr] = []
    try:
        parts = made_anew(name, scope, made)
    except UnknownError:
        if len(given) != 1 or len(given[0].targets) != 1:
            raise
    for part in parts or [given[0].value]:
        for other in names(part, made):
            _follow(other, scope, made, arguments, rests, above | {name})
    if parts:
        made.f_locals[name] = torch.empty(int(same_count(parts, made)), device="meta")
    else:
        made.f_locals[name] = number(given[0].value, made)


def same_count(parts: list[ast.expr], frame: FrameType) -> float:
    """The number that all of these are, or their length."""
    lengths = {_as_count(part, frame) for part in parts}
    if len(lengths) != 1:
        raise UnknownError
    return lengths.pop()


def _as_count(node: ast.expr, frame: FrameType) -> float:
    try:
        return number(node, frame)
    except UnknownError:
        return length(node, frame)


def _called(node: ast.Call, function: types.FunctionType, frame: FrameType) -> tuple[FrameType, dict[str, ast.expr]]:
    if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
        raise UnknownError
    try:
        bound = inspect.signature(function).bind(*node.args, **{str(k.arg): k.value for k in node.keywords})
    except (TypeError, ValueError) as e:
        raise UnknownError from e
    arguments = {k: v for k, v in bound.arguments.items() if isinstance(v, ast.expr)}
    held = {p.name: p.default for p in inspect.signature(function).parameters.values() if p.name not in arguments}
    for name, given in arguments.items():
        with contextlib.suppress(UnknownError):
            held[name] = _value_or_as_many(given, frame)
    code = function.__code__
    return cast("FrameType", _Called(held, function.__globals__, code, code.co_firstlineno)), arguments


def _value_or_as_many(node: ast.expr, frame: FrameType) -> Any:
    try:
        return value(node, frame)
    except UnknownError:
        many = length(node, frame)
        if not many < _LARGEST:
            raise
        return range(int(many))


def _source_of(function: types.FunctionType) -> ast.FunctionDef:
    code = function.__code__
    for node in ast.walk(tree_of(code.co_filename)):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name and node.lineno == code.co_firstlineno:
            return node
    raise UnknownError


def _only_loop(scope: ast.FunctionDef) -> ast.For:
    """The one loop of a generator function whose each pass yields once, and that nothing leaves."""
    yields = [n for n in inside(scope) if isinstance(n, ast.Yield | ast.YieldFrom)]
    for loop in scope.body:
        if isinstance(loop, ast.For) and len(yields) == 1 and not loop.orelse:
            plain = any(isinstance(s, ast.Expr) and s.value is yields[0] for s in loop.body)
            left = (ast.Break, ast.Continue, ast.Return, ast.Raise)
            if plain and not any(isinstance(n, left) for n in inside(scope)):
                return loop
    raise UnknownError
