"""Conditions in loops of the script: what is certain before they run, and counters that may not pass a number."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

from .frame_source import LoopNode, enclosing, tree_of
from .plain_values import UnknownError, number, value
from .source_nodes import dotted


@dataclass(slots=True)
class Bound:
    """A number that a counter may not pass: ``while step < last`` or ``if step >= last: break``."""

    counter: str
    at: float
    last: float
    by: int = 0
    """By how much each pass of the loop raises it, where that is written in the loop itself."""
    ends_all: bool = False
    """Whether the loop goes on until the bound is reached, whatever is in it."""
    of_frame: bool = True
    """Whether the counter is a variable of the function, which begins again with each call."""
    rests_on: ast.expr | None = None


def taken_apart(conditions: list[tuple[ast.expr, bool]]) -> Iterator[tuple[ast.expr, bool]]:
    for test, is_so in conditions:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and is_so:
            yield from taken_apart([(part, True) for part in test.values])
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield from taken_apart([(test.operand, not is_so)])
        else:
            yield test, is_so


def truth(test: ast.expr, frame: FrameType, changed: set[str]) -> bool | None:
    """Whether a condition on what the loops do not change holds; None where that cannot be told."""
    if any((isinstance(n, ast.Name) and n.id in changed) or (isinstance(n, ast.Attribute) and dotted(n) in changed)
           for n in ast.walk(test)):  # fmt: skip
        return None
    code = frame.f_code
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code.co_name != "<module>" else ()
    for n in ast.walk(test):
        # a number that a function is given may be another in its next call
        if isinstance(n, ast.Name) and n.id in given and type(frame.f_locals.get(n.id)) in (int, float, str):
            return None
    try:
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                known = truth(operand, frame, changed)
                return None if known is None else not known
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
                return (value(left, frame) is None) is isinstance(op, ast.Is)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                a, b = value(left, frame), value(right, frame)
                return _compared(a, op, b) if not _counts(left, frame) and not _counts(right, frame) else None
            case ast.Name() | ast.Attribute() | ast.Constant():
                found = value(test, frame)
                plain = found is None or isinstance(found, bool | int | float | str)
                return bool(found) if plain and not _counts(test, frame) else None
            case _:
                return None
    except UnknownError:
        return None


def _compared(a: Any, op: ast.cmpop, b: Any) -> bool | None:
    if not all(x is None or isinstance(x, bool | int | float | str) for x in (a, b)):
        return None
    try:
        match op:
            case ast.Eq():
                return a == b
            case ast.NotEq():
                return a != b
            case ast.Lt():
                return a < b
            case ast.LtE():
                return a <= b
            case ast.Gt():
                return a > b
            case ast.GtE():
                return a >= b
            case _:
                return None
    except TypeError:
        return None


def _counts(node: ast.expr, frame: FrameType) -> bool:
    """Whether an expression holds an attribute that some place of the file raises or sets outside of a constructor."""
    written = _written_attributes(frame.f_code.co_filename)
    return any(isinstance(n, ast.Attribute) and n.attr in written for n in ast.walk(node))


@cache
def _written_attributes(file: str) -> frozenset[str]:
    tree = tree_of(file)
    built = {
        id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.name == "__init__" for n in ast.walk(f)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) not in built and isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(node.attr)
    return frozenset(found)


def bound_of(test: ast.expr, frame: FrameType, changed: set[str], *, up_to: bool) -> Bound:
    """``counter < last`` (``up_to``), or ``counter >= last``, whichever side the counter stands on."""
    match test:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            pass
        case _:
            raise UnknownError
    mirrored: dict[type[ast.cmpop], type[ast.cmpop]] = {
        ast.Lt: ast.Gt,
        ast.LtE: ast.GtE,
        ast.Gt: ast.Lt,
        ast.GtE: ast.LtE,
        ast.Eq: ast.Eq,
        ast.NotEq: ast.NotEq,
    }
    kind: type[ast.cmpop] | None = type(op)
    for counter, last in ((left, right), (right, left)):
        is_raised = dotted(counter) in changed or _counts(counter, frame)
        if kind is not None and dotted(counter) and is_raised and not moves(last, frame, changed):
            wanted = (ast.Lt, ast.LtE, ast.NotEq) if up_to else (ast.GtE, ast.Gt, ast.Eq)
            if kind not in wanted:
                raise UnknownError
            more = 1 if kind in (ast.LtE, ast.Gt) else 0
            bound = Bound(dotted(counter), number(counter, frame), number(last, frame) + more, rests_on=last)
            bound.of_frame = isinstance(counter, ast.Name) and frame.f_code.co_name != "<module>"
            if bound.of_frame and bound.counter not in frame.f_locals:
                raise UnknownError
            return bound
        kind = mirrored.get(type(op))
    raise UnknownError


def moves(node: ast.expr, frame: FrameType, changed: set[str]) -> bool:
    return _counts(node, frame) or any(isinstance(n, ast.Name) and n.id in changed for n in ast.walk(node))


def note_raises(bound: Bound, node: LoopNode, frame: FrameType) -> None:
    """By how much the loop itself raises the counter in each pass."""
    raised = [s for s in node.body if isinstance(s, ast.AugAssign) and dotted(s.target) == bound.counter]
    if len(raised) == 1 and isinstance(raised[0].op, ast.Add):
        try:
            by = number(raised[0].value, frame)
        except UnknownError:
            return
        bound.by = int(by) if by == int(by) and by > 0 else 0
        if raised[0].lineno < frame.f_lineno:
            bound.at -= bound.by
    loops: list[ast.stmt] = [n for n in enclosing(frame)[1] if isinstance(n, LoopNode)]
    around = ast.Module(loops[:1], [])
    if "." in bound.counter:
        around = tree_of(frame.f_code.co_filename)
        raising = (n.target for n in ast.walk(around) if isinstance(n, ast.AugAssign))
        if not any(_same_counter(target, bound.counter) for target in raising):
            raise UnknownError  # another file counts, and may begin again
    for n in ast.walk(around):
        if isinstance(n, ast.Assign) and any(_same_counter(t, bound.counter) for t in n.targets):
            again = isinstance(n.value, ast.Constant) if "." in bound.counter else not _adds(n.value, bound.counter)
            if again and not _in_constructor(n, around):
                raise UnknownError  # it begins again


def _same_counter(target: ast.expr, counter: str) -> bool:
    attribute = counter.rpartition(".")[2]
    return (
        isinstance(target, ast.Attribute) and target.attr == attribute if "." in counter else dotted(target) == counter
    )


def _adds(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and dotted(node.left) == name


def _in_constructor(node: ast.AST, tree: ast.AST) -> bool:
    built = (f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.name == "__init__")
    return any(n is node for f in built for n in ast.walk(f))
