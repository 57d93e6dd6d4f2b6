"""Arguments of a forward that enter nothing but variables which nothing reads: `joined = cat([x, c])`, and then `x` goes on."""

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
    """Arguments of a ``forward`` that are joined with another into a variable from which nothing goes on: the first of each."""
    if not may_leave_unread(source):
        return
    lines = source.split("\n")
    for scope, function in scopes(tree):
        if function != "forward" or not isinstance(scope, ast.FunctionDef):
            continue
        given = {a.arg for a in [*scope.args.posonlyargs, *scope.args.args[1:], *scope.args.kwonlyargs]}
        bound, roots = _flow(scope)
        if roots & _DYNAMIC:
            continue
        live = _reached(roots, [(name, loads) for name, loads, _ in bound])
        for name, loads, node in bound:
            if name in live or not isinstance(node.value, ast.Call):
                continue
            if dotted(node.value.func).rpartition(".")[2] not in _MAKES:
                continue
            made_of = _reached(loads, [(name, loads) for name, loads, _ in bound]) & given
            lost = next((argument for argument in sorted(made_of) if argument not in live), None)
            if lost is not None and made_of & live:
                yield Discarded(node.lineno, function, shown_in(node, lines), name, "unread", called=lost)
                break


def _flow(scope: ast.FunctionDef) -> tuple[list[tuple[str, set[str], ast.Assign]], set[str]]:
    """(plain assignments to a name with the names that they read, names that anything else reads). Assertions and comparisons
    with None read nothing."""
    bound: list[tuple[str, set[str], ast.Assign]] = []
    roots = set[str]()
    todo: list[ast.AST] = list(scope.body)
    while todo:
        node = todo.pop()
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                bound.append((name, _loads(value), node))
            case ast.Assert() | ast.Compare(comparators=[ast.Constant(value=None)]):
                pass
            case ast.Name(id=name, ctx=ast.Load()):
                roots.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                roots.update(names)
            case ast.AugAssign(target=ast.Name(id=name)):
                roots.add(name)
                todo.extend(ast.iter_child_nodes(node))
            case _:
                todo.extend(ast.iter_child_nodes(node))
    return bound[::-1], roots


def _loads(value: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(value) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _reached(names: set[str], bound: list[tuple[str, set[str]]]) -> set[str]:
    """These names, and all that they are made of."""
    found, size = set(names), -1
    while len(found) != size:
        size = len(found)
        for name, loads in bound:
            if name in found:
                found |= loads
    return found
