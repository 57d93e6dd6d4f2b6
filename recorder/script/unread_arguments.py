"""Arguments of a forward that enter nothing but a variable which nothing reads: `joined = cat([x, c])`, and then `x` goes on."""

import ast
import re
from collections.abc import Iterator

from .lost_results import Discarded
from .source_nodes import dotted, scopes, shown_in

_MAKES = frozenset(
    {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "mul", "add", "where", "einsum", "matmul"}
)
"""Functions whose result is made of all that they are given."""

_WORDS = re.compile(rf"^[ \t]+\w+[ \t]*=[ \t]*\w+\.(?:{'|'.join(sorted(_MAKES))})\(", re.MULTILINE)
_DYNAMIC = frozenset({"locals", "vars", "eval", "exec"})


def may_leave_unread(text: str) -> bool:
    """Whether a text is worth a parse."""
    return "def forward" in text and _WORDS.search(text) is not None


def unread(tree: ast.Module, source: str) -> Iterator[Discarded]:
    """Every argument of a ``forward`` that is joined with another one into a variable, where the function reads neither again."""
    if not may_leave_unread(source):
        return
    lines = source.split("\n")
    for scope, function in scopes(tree):
        if function != "forward" or not isinstance(scope, ast.FunctionDef):
            continue
        names = [node for node in ast.walk(scope) if isinstance(node, ast.Name)]
        if any(node.id in _DYNAMIC for node in names):
            continue
        given = {a.arg for a in [*scope.args.posonlyargs, *scope.args.args[1:], *scope.args.kwonlyargs]}
        shared = {n for node in ast.walk(scope) if isinstance(node, ast.Global | ast.Nonlocal) for n in node.names}
        loads = [node for node in names if isinstance(node.ctx, ast.Load)]
        for node in ast.walk(scope):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called) as made) if (
                    dotted(called).rpartition(".")[2] in _MAKES and name not in shared
                ):
                    if any(load.id == name for load in loads):
                        continue
                    within = {id(n) for n in ast.walk(made)}
                    taken = [n.id for n in loads if id(n) in within and n.id in given]
                    lost = next((a for a in taken if all(id(n) in within for n in loads if n.id == a)), None)
                    if lost is not None and any(a != lost for a in taken):
                        text = shown_in(node, lines)
                        yield Discarded(node.lineno, function, text, name, "unread", called=lost)
                case _:
                    pass
