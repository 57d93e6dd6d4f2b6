"""Lists that a loop fills and nothing reads, where their last element is taken in their place. ``next_states.append(next_state)``
stands in the loop, and ``torch.tensor(states), torch.tensor(next_state)`` behind it. Read in the source."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from .lost_results import Discarded
from .source_nodes import dotted, inside, scopes, shown_in

_FILLED = re.compile(r"^[ \t]+(\w+)\.append\(", re.MULTILINE)
_WORD = re.compile(r"\w+")
_MAKES = frozenset(
    {"tensor", "as_tensor", "array", "asarray", "stack", "cat", "concat", "concatenate", "FloatTensor", "LongTensor"}
)
"""Functions that make one tensor or array of many samples."""
_DYNAMIC = frozenset({"locals", "vars", "eval", "exec"})
_MOST_OFTEN = 3
"""Times that the name of a list that nothing reads stands in a file: where it is made and where it is filled."""


def may_fill_in_vain(text: str) -> bool:
    """Whether a text is worth a parse: it fills a list whose name stands hardly anywhere else."""
    filled = {found[1] for found in _FILLED.finditer(text)}
    if not filled:
        return False
    times = Counter(word for word in _WORD.findall(text) if word in filled)
    return any(times[name] <= _MOST_OFTEN for name in filled)


def unread_lists(tree: ast.Module, source: str) -> Iterator[Discarded]:
    """The first of each function."""
    if not may_fill_in_vain(source):
        return
    lines = source.split("\n")
    for scope, function in scopes(tree):
        found = next(_of_scope(scope), None) if not isinstance(scope, ast.Module) else None
        if found is not None:
            statement, filled, last = found
            yield Discarded(statement.lineno, function, shown_in(statement, lines), filled, "list_unread", last)


def _of_scope(scope: ast.AST) -> Iterator[tuple[ast.stmt, str, str]]:
    nodes = list(inside(scope))
    names = [n for n in nodes if isinstance(n, ast.Name)]
    read = [n for n in names if isinstance(n.ctx, ast.Load)]
    if _DYNAMIC & {n.id for n in read} or any(isinstance(n, ast.Global | ast.Nonlocal) for n in nodes):
        return
    reads = Counter(n.id for n in read)
    made = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    for loop in nodes:
        if not isinstance(loop, ast.For | ast.While):
            continue
        filled = dict(_filled(loop))
        unread = {
            name: last for name, (last, times) in filled.items() if name in made and reads[name] == times and last
        }
        bound = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        later = [n for n in nodes if isinstance(n, ast.stmt) and n.lineno > (loop.end_lineno or loop.lineno)]
        for name, last in unread.items():
            for statement in later if last in bound else []:
                taken = set(_gathered(statement))
                if last in taken and any(other in taken for other in filled.keys() - unread.keys()):
                    yield statement, name, last


def _filled(loop: ast.For | ast.While) -> Iterator[tuple[str, tuple[str, int]]]:
    """(list, (name of what is appended, how often a line appends)) of what a loop fills."""
    times: Counter[str] = Counter()
    last: dict[str, str] = {}
    for node in ast.walk(loop):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[given])):
                times[name] += 1
                last[name] = _one_name(given)
            case _:
                pass
    for name, count in times.items():
        alike = last[name] and name.startswith(last[name])
        yield name, (last[name] if alike else "", count)


def _one_name(given: ast.expr) -> str:
    while isinstance(given, ast.List) and len(given.elts) == 1:
        given = given.elts[0]
    return given.id if isinstance(given, ast.Name) else ""


def _gathered(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement gives to a function that makes one tensor or array of them."""
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=called, args=[ast.Name(id=name), *_]) if dotted(called).rpartition(".")[2] in _MAKES:
                yield name
            case _:
                pass
