"""What a frame of the script is running: its function and the statements around the current line, from the source."""

import ast
import linecache
from collections.abc import Iterator
from functools import cache
from types import FrameType

from .plain_values import UnknownError
from .source_nodes import dotted, inside

_LARGEST = 1_000_000
"""Letters of a file that is parsed."""

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
LoopNode = ast.For | ast.While


def tree_of(file: str) -> ast.Module:
    text = "".join(linecache.getlines(file))
    if not text or len(text) > _LARGEST:
        raise UnknownError
    return _parsed(text)


@cache
def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as e:
        raise UnknownError from e


def enclosing(frame: FrameType) -> tuple[Scope, list[ast.stmt]]:
    """The function that a frame runs, and the statements of it that enclose the current line, the outermost first."""
    code, line = frame.f_code, frame.f_lineno
    tree = tree_of(code.co_filename)
    scope: Scope | None = tree if code.co_name == "<module>" else None
    for node in ast.walk(tree) if scope is None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            begins = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if begins == code.co_firstlineno:
                scope = node
    if scope is None:
        raise UnknownError
    found: list[ast.stmt] = []
    body: list[ast.stmt] = scope.body
    while (around := _holding(body, line)) is not None:
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Match | ast.AsyncFor):
            raise UnknownError
        parts: list[list[ast.stmt]] = [getattr(around, part, []) for part in ("body", "orelse", "finalbody")]
        parts += [h.body for h in getattr(around, "handlers", [])]
        body = next((part for part in parts if _holding(part, line) is not None), [])
        if isinstance(around, LoopNode) and not body:
            raise UnknownError  # in its head, which is looked at in each pass
        if body and not (isinstance(around, LoopNode) and body is around.orelse):
            found.append(around)
    return scope, found


def _holding(body: list[ast.stmt], line: int) -> ast.stmt | None:
    return next((s for s in body if s.lineno <= line <= (s.end_lineno or s.lineno)), None)


def call_at(scope: Scope, frame: FrameType) -> ast.Call | None:
    """The call that a frame is in."""
    places = list(frame.f_code.co_positions())
    line, end, first, last = places[frame.f_lasti // 2]
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == (
            line,
            end,
            first,
            last,
        ):
            return node
    return None


def assigned(node: ast.AST) -> Iterator[str]:
    """Names and dotted names that a loop assigns."""
    for n in (node, *inside(node)):
        if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Store | ast.Del) and dotted(n):
            yield dotted(n)


def targets_around(frame: FrameType) -> set[str]:
    """Names that the loops around the current line run over."""
    found: set[str] = set()
    for node in enclosing(frame)[1]:
        if isinstance(node, ast.For):
            found |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    return found
