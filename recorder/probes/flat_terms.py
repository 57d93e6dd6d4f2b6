"""Terms that are added to a loss and have no graph: they are in its value, and train nothing.

Which they are is read in the function that calls backward, and looked at in its variables. For a process of our own alone:
reading the variables of a frame keeps them alive.
"""

import ast
import linecache
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from torch import Tensor

from ..script.frame_source import Scope, enclosing
from ..script.frames import shown
from ..script.plain_values import UnknownError
from ..script.source_nodes import inside, shown_in
from .trial import Probe, Setting, Trial, result, untried

_DEEPEST = 3
"""Sums within sums that are followed."""

_TRIALS = 3
"""Batches on which a term must be without a graph, and not the same number each time: a constant may be meant."""


class FlatTerm(NamedTuple):
    """A term of the loss that no gradient leaves."""

    term: str
    text: str
    """The statement that adds it."""
    place: str
    value: float


def flat_terms(loss: Tensor, frame: FrameType | None) -> list[FlatTerm]:
    """Those of a loss that is given to backward by a function of the script; empty where its source says nothing."""
    if frame is None or not loss.requires_grad:
        return []
    try:
        scope, _ = enclosing(frame)
    except UnknownError:
        return []
    names = [name for name, value in frame.f_locals.items() if value is loss]
    return [term for name in names[:1] for term in _added_to(name, scope, frame, 0)]


def _added_to(name: str, scope: Scope, frame: FrameType, depth: int) -> Iterator[FlatTerm]:
    lines = [line.rstrip("\n") for line in linecache.getlines(frame.f_code.co_filename)]
    bound = list(_bindings(scope))
    for statement, target, value in bound:
        if target != name:
            continue
        for addend in _addends(value):
            term, tensor = _flat(addend, frame)
            if term is None or tensor is None:
                if isinstance(addend, ast.Name) and addend.id != name and depth < _DEEPEST:
                    yield from _added_to(addend.id, scope, frame, depth + 1)
                continue
            later = any(t == term and statement.lineno < s.lineno <= frame.f_lineno for s, t, _ in bound)
            if not later:  # what was detached after it had been added was in the graph
                text = shown_in(statement, lines)
                place = f"{shown(frame.f_code.co_filename)}:{statement.lineno}"
                yield FlatTerm(term, text, place, float(tensor))


def _bindings(scope: Scope) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    for node in inside(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield node, name, value
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add() | ast.Sub(), value=value):
                yield node, name, value
            case _:
                pass


def _addends(value: ast.expr) -> Iterator[ast.expr]:
    match value:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield from _addends(left)
            yield from _addends(right)
        case ast.UnaryOp(operand=operand):
            yield from _addends(operand)
        case _:
            yield value


def _flat(addend: ast.expr, frame: FrameType) -> tuple[str | None, Tensor | None]:
    """The variable that is added, by itself or times others, where none of them has a graph."""
    parts = [addend]
    if isinstance(addend, ast.BinOp) and isinstance(addend.op, ast.Mult | ast.Div):
        parts = [addend.left, addend.right]
    held = [(part.id, frame.f_locals.get(part.id)) for part in parts if isinstance(part, ast.Name)]
    others = [part for part in parts if not isinstance(part, ast.Name)]
    if any(isinstance(part, ast.Call | ast.BinOp) for part in others) or any(value == 0 for _, value in _numbers(held)):
        return None, None
    tensors = [(name, value) for name, value in held if isinstance(value, Tensor)]
    if not tensors or any(t.requires_grad or t.numel() != 1 or not t.is_floating_point() for _, t in tensors):
        return None, None
    return tensors[0]


def _numbers(held: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in held if isinstance(value, int | float)]


def terms(setting: Setting) -> Probe:
    """Make a few iterations on other batches: a term of the loss that changes with them must have a graph."""
    del setting
    name = "loss-terms"
    seen: dict[str, list[FlatTerm]] = {}
    for _ in range(_TRIALS):
        looked = yield Trial(stream=True, look_at_terms=True)
        for term in looked.flat_terms:
            seen.setdefault(term.term, []).append(term)
        if looked.loss is None:
            return untried(name, "not-repeatable")
    for found in seen.values():
        values = {term.value for term in found}
        if len(found) >= _TRIALS and len(values) > 1 and 0.0 not in values:
            last = found[-1]
            return result(
                name, "doubtful", "term-flat", term=last.term, text=last.text, place=last.place, value=last.value
            )
    return result(name, "passed", "terms-with-graphs")


ALL: dict[str, Any] = {"loss-terms": terms}
