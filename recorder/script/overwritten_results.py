"""Results of modules that a forward throws away: `out = norm1(conv1(x))`, and then `out = norm2(conv2(x))`."""

import ast
import re
from collections.abc import Iterator

from .lost_results import Discarded
from .source_nodes import dotted, scopes, shown_in

_WORDS = re.compile(
    r"^[ \t]+(\w+)[ \t]*=[^=\n]*\bself\.\w+\([^\n]*\n(?:[^\n]*\n){0,3}?[ \t]+\1[ \t]*=[^=]", re.MULTILINE
)
"""A name that is bound to the result of a module, and again within four lines."""

_DYNAMIC = frozenset({"locals", "vars", "eval", "exec"})


def may_overwrite(text: str) -> bool:
    """Whether a text is worth a parse."""
    return "def forward" in text and _WORDS.search(text) is not None


def overwritten(tree: ast.Module, source: str) -> Iterator[Discarded]:
    """Assignments of a ``forward`` that bind a name to what a module gives, before the same block binds it anew and nothing has
    read it: the first of each."""
    if not may_overwrite(source):
        return
    lines = source.split("\n")
    for scope, function in scopes(tree):
        if function != "forward" or not isinstance(scope, ast.FunctionDef) or _DYNAMIC & _read_in(scope):
            continue
        for block in _blocks(scope):
            if (pair := _lost_in(block)) is not None:
                first, again = pair
                name = dotted(first.targets[0])
                yield Discarded(
                    first.lineno, function, shown_in(first, lines), name, "overwritten", shown_in(again, lines)
                )
                break


def _lost_in(block: list[ast.stmt]) -> tuple[ast.Assign, ast.Assign] | None:
    waiting: dict[str, ast.Assign] = {}
    for statement in block:
        for name in _read_in(statement):
            waiting.pop(name, None)
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if name in waiting:
                    return waiting[name], statement
                if _calls_a_module(value):
                    waiting[name] = statement
            case ast.Expr() | ast.Assign() | ast.AnnAssign():
                pass
            case _:  # it may leave the block, or bind the name on one way only
                waiting.clear()
    return None


def _calls_a_module(value: ast.expr) -> bool:
    return any(isinstance(n, ast.Call) and dotted(n.func).startswith("self.") for n in ast.walk(value))


def _read_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}


def _blocks(scope: ast.AST) -> Iterator[list[ast.stmt]]:
    """Statements that run one after the other."""
    for node in ast.walk(scope):
        for part in ("body", "orelse", "finalbody"):
            block = getattr(node, part, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block
