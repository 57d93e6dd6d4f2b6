"""Results that nothing reads, because another variable of almost the same name is read in their place.

``output, hdden = self.gru(x, hidden)``, and ``hidden`` is returned. Or ``val_outputs = model(x)`` in a loop that goes on with
``outputs``, which the loop over the training data has left: ``val_outputs = outputs.argmax(1)``. Read in the source.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from .lost_results import Discarded
from .source_nodes import dotted, inside, scopes, shown_in

_BOUND = re.compile(r"^[ \t]+(\w+(?:[ \t]*,[ \t]*\w+)*)[ \t]*=(?!=)[^\n]*\(", re.MULTILINE)
_WORD = re.compile(r"\w+")
_SHORTEST = 5
"""Letters of a name that may be misspelt: of shorter ones, two that differ in a letter are mostly two."""
_AGAIN = re.compile(r"^[ \t]+(\w+)[ \t]*=[^=\n]*\([^\n]*\n[ \t]+\1[ \t]*=[^=]", re.MULTILINE)
"""A name that is bound on two lines in a row."""
_DYNAMIC = frozenset({"locals", "vars", "eval", "exec"})


def may_hold_twins(text: str) -> bool:
    """Whether a text is worth a parse: it holds a name that is bound to the result of a call and stands nowhere else, or is bound
    anew in the next line."""
    if any(len(found[1]) > _SHORTEST and "_" in found[1] for found in _AGAIN.finditer(text)):
        return True
    words: Counter[str] | None = None
    for found in _BOUND.finditer(text):
        for name in found[1].split(","):
            if len(name := name.strip()) >= _SHORTEST:
                words = words or Counter(_WORD.findall(text))
                if words[name] == 1:
                    return True
    return False


def unread_twins(tree: ast.Module, source: str) -> Iterator[Discarded]:
    """All of a file, the first of each function."""
    if not may_hold_twins(source):
        return
    lines = source.split("\n")
    times = Counter(_WORD.findall(source))
    for scope, function in scopes(tree):
        found = next(_of_scope(scope, times), None) or next(_bound_anew(scope), None)
        if found is not None:
            statement, name, twin, reason = found
            yield Discarded(statement.lineno, function, shown_in(statement, lines), name, reason, twin)


def _of_scope(scope: ast.AST, times: Counter[str]) -> Iterator[tuple[ast.Assign, str, str, str]]:
    nodes = list(inside(scope))
    names = [n for n in nodes if isinstance(n, ast.Name)]
    read = [n for n in names if isinstance(n.ctx, ast.Load)]
    if _DYNAMIC & {n.id for n in read}:
        return
    given = _arguments(scope)
    bound = given | {n.id for n in names if isinstance(n.ctx, ast.Store)}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Tuple() as target], value=ast.Call(func=called)):
                pass
            case _:
                continue
        for name in [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]:
            if len(name) < _SHORTEST or times[name] != 1 or name.startswith("_"):
                continue
            later = {n.id for n in read if n.lineno > node.lineno}
            for twin in sorted((later | {n.id for n in read if n.lineno == node.lineno}) & bound):
                if _misspelt(name, twin) and twin in later:
                    yield node, name, twin, "misspelt"
                elif _part_of(twin, name) and _left_by_another_loop(scope, node, twin, dotted(called)):
                    yield node, name, twin, "twin_read"


def _bound_anew(scope: ast.AST) -> Iterator[tuple[ast.Assign, str, str, str]]:
    """Names that the next statement binds anew, from what another loop has left in a variable that is called alike."""
    for holder in inside(scope):
        for part in ("body", "orelse"):
            block = getattr(holder, part, None)
            for first, second in pairwise(block if isinstance(block, list) else []):
                match first, second:
                    case (
                        ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called)),
                        ast.Assign(targets=[ast.Name(id=again)], value=value),
                    ) if name == again:
                        read = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
                        for twin in sorted(read) if name not in read else []:
                            if _part_of(twin, name) and _left_by_another_loop(scope, first, twin, dotted(called)):
                                yield first, name, twin, "twin_read"
                    case _:
                        pass


def _arguments(scope: ast.AST) -> set[str]:
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return set()
    return {a.arg for a in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)}


def _misspelt(name: str, other: str) -> bool:
    """Whether one letter inside is missing or too many, or two neighbours have changed places."""
    if name[0] != other[0] or name[-1] != other[-1] or min(len(name), len(other)) < _SHORTEST:
        return False
    if len(name) == len(other):
        apart = [i for i, (a, b) in enumerate(zip(name, other, strict=True)) if a != b]
        return (
            len(apart) == 2
            and apart[1] == apart[0] + 1
            and name[apart[0]] == other[apart[1]]
            and name[apart[1]] == other[apart[0]]
        )
    shorter, longer = sorted((name, other), key=len)
    if len(longer) != len(shorter) + 1:
        return False
    at = next(i for i in range(len(longer)) if i == len(shorter) or longer[i] != shorter[i])
    return longer[at].isalpha() and longer[:at] + longer[at + 1 :] == shorter


def _part_of(part: str, name: str) -> bool:
    """Whether a name is the other one with a word in front of it or behind it: ``outputs`` and ``val_outputs``."""
    return len(part) >= _SHORTEST and (name.endswith(f"_{part}") or name.startswith(f"{part}_"))


def _left_by_another_loop(scope: ast.AST, statement: ast.Assign, twin: str, called: str) -> bool:
    """Whether the loop round a statement reads a variable that it does not bind, and that another loop bound by the same call."""
    loops = [n for n in inside(scope) if isinstance(n, ast.For)]
    around = [loop for loop in loops if any(n is statement for n in ast.walk(loop))]
    if not around or not called:
        return False
    inner = max(around, key=lambda loop: loop.lineno)
    here = [n for n in ast.walk(inner) if isinstance(n, ast.Name) and n.id == twin]
    if not any(isinstance(n.ctx, ast.Load) and n.lineno > statement.lineno for n in here):
        return False
    if any(isinstance(n.ctx, ast.Store) for n in here):
        return False
    return any(
        isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Call)
        and dotted(n.value.func) == called
        and any(isinstance(t, ast.Name) and t.id == twin for t in n.targets)
        for loop in loops
        if loop not in around
        for n in ast.walk(loop)
    )
