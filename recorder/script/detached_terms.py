"""Terms of a loss that were turned into plain numbers before they were added: read in the source."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from .source_nodes import dotted, inside, scopes, shown_in

_TERM = re.compile(r"loss|reg|penal|kl|adv|aux|entropy|commit|consist|contrast|diverg", re.IGNORECASE)
"""Names of what a loss is put together of."""

_FACTOR = re.compile(r"^(w|lam|lambd|lambda_|alpha|beta|gamma|coef)\w*$|weight|coef|scale|factor", re.IGNORECASE)

_CUTS = frozenset({"item", "detach", "tolist", "numpy"})
_CARRIES = frozenset({"cpu", "cuda", "to", "float", "double", "mean", "sum", "clone", "item", "numpy", "squeeze"})
_MAKES = frozenset({"tensor", "as_tensor", "FloatTensor", "Tensor"})
_OF = frozenset({"mean", "sum", "stack"})

_WORTH = re.compile(r"\.backward\(|def forward\(")
_CUT = re.compile(
    r"^[ \t]+\w*(?:loss|reg|penal|kl|adv|aux|entropy|commit|consist|contrast|diverg)\w*[ \t]*=[ \t][^=\n]*"
    r"(?:\.item\(\)|\.detach\(\)|\.data\b|float\(|[tT]ensor\()",
    re.MULTILINE | re.IGNORECASE,
)


class DetachedTerm(NamedTuple):
    """A number that is added to a loss, and was a term with a graph."""

    line: int
    """Of the sum."""
    function: str
    text: str
    """The sum."""
    term: str
    made_line: int
    made: str
    """What made a number of it."""
    reason: str = "cut"
    """cut, no_graph_created, or own_difference: weights less themselves, which is zero."""


def may_detach(text: str) -> bool:
    """Whether a text is worth a parse."""
    return bool(_CUT.search(text)) and bool(_WORTH.search(text))


def detached_terms(tree: ast.Module, source: str) -> Iterator[DetachedTerm]:
    """All of a file, one for each sum."""
    if not may_detach(source):
        return
    lines = source.split("\n")
    for scope, function in scopes(tree):
        nodes = list(inside(scope))
        bound = single_bindings(nodes)
        if not any(_TERM.search(name) and any(_cuts(b.value) for b in made) for name, made in bound.items()):
            continue
        lost = lost_names(nodes)
        for statement in nodes:
            if not isinstance(statement, ast.Assign | ast.Call | ast.Return):
                continue
            before = {n: max(b, key=lambda a: a.lineno) for n, made in bound.items() if (b := _before(made, statement))}
            cut = {n: b for n, b in before.items() if _TERM.search(n) and _cuts(b.value)}
            found = _sum_with(statement, cut, bound, lost, returned=function == "forward") if cut else None
            if found is not None:
                value, name = found
                made = cut[name]
                yield DetachedTerm(
                    value.lineno, function, shown_in(value, lines), name, made.lineno, shown_in(made, lines)
                )


def _before(made: list[ast.Assign], statement: ast.expr | ast.stmt) -> list[ast.Assign]:
    return [b for b in made if b.lineno < statement.lineno]


def lost_names(nodes: list[ast.AST]) -> set[str]:
    """Names on which backward is called: ``loss.backward()``, ``scale(loss).backward()``, ``accelerator.backward(loss)``."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr="backward" | "manual_backward"), args=args):
                scaled = held.args if isinstance(held, ast.Call) else []
                found |= {dotted(part) for part in (held, *scaled, *args)}
            case _:
                pass
    return found - {""}


def single_bindings(nodes: list[ast.AST]) -> dict[str, list[ast.Assign]]:
    """Name → assignments of it alone; a name that is bound otherwise as well has one more."""
    found: dict[str, list[ast.Assign]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node)
        elif isinstance(node, ast.AugAssign | ast.For | ast.Assign | ast.AnnAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        empty = ast.Assign(targets=[], value=ast.Constant(value=None), lineno=node.lineno)
                        found.setdefault(part.id, []).append(empty)
    return found


def _cuts(value: ast.expr) -> bool:
    """Whether an expression takes the graph from what it is made of."""
    match value:
        case ast.Call(func=ast.Attribute(value=held, attr=name)) if name in _CUTS:
            return not isinstance(held, ast.Constant)
        case ast.Call(func=ast.Name(id="float"), args=[held]):
            return not isinstance(held, ast.Constant | ast.Attribute)
        case ast.Attribute(value=ast.Call() | ast.Name(), attr="data"):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[held, *_]) if name in _MAKES:
            return any(isinstance(n, ast.Call) and dotted(n.func) == "float" for n in ast.walk(held)) or any(
                isinstance(n, ast.Attribute) and n.attr == "item" for n in ast.walk(held)
            )
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[held, *_]) if name in _OF:
            return _cuts(held)
        case ast.Call(func=ast.Attribute(value=held, attr=name)) if name in _CARRIES:
            return _cuts(held)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return (isinstance(left, ast.Constant) and _cuts(right)) or (
                isinstance(right, ast.Constant) and _cuts(left)
            )
        case _:
            return False


def _sum_with(
    node: ast.AST, cut: dict[str, ast.Assign], bound: dict[str, list[ast.Assign]], lost: set[str], *, returned: bool
) -> tuple[ast.expr, str] | None:
    """The sum of a statement that makes a loss, and the term in it that is a number beside others that are not."""
    match node:
        case ast.Assign(targets=[target], value=value) if dotted(target) in lost:
            sums = [value]
        case ast.Call(func=ast.Attribute(value=ast.BinOp() as value, attr="backward")):
            sums = [value]
        case ast.Return(value=ast.Tuple(elts=elements)) if returned:
            sums = list(elements)
        case ast.Return(value=ast.BinOp() as value) if returned:
            sums = [value]
        case _:
            return None
    for value in sums:
        terms = list(terms_of(value))
        numbers = [name for term in terms if (name := _number_of(term, cut))]
        live = [t for t in terms if not _number_of(t, cut) and any(is_live(n, bound) for n in ast.walk(t))]
        if len(terms) > 1 and numbers and live:
            return value, numbers[0]
    return None


def terms_of(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub):
        yield from terms_of(value.left)
        yield from terms_of(value.right)
    else:
        yield value


def _number_of(term: ast.expr, cut: dict[str, ast.Assign]) -> str:
    """The name of a term that is such a number, or one times factors; empty otherwise."""
    if isinstance(term, ast.Name):
        return term.id if term.id in cut else ""
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult | ast.Div):
        for one, other in ((term.left, term.right), (term.right, term.left)):
            if (name := _number_of(one, cut)) and _is_factor(other):
                return name
    return ""


def _is_factor(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.Attribute() | ast.Subscript():
            return True
        case ast.Name(id=name):
            return name.isupper() or bool(_FACTOR.search(name))
        case _:
            return False


def name_of(term: ast.expr) -> str:
    """A term without its factors, as it is called: its first variable that is no factor."""
    names = [n.id for n in ast.walk(term) if isinstance(n, ast.Name) and not _is_factor(n)]
    return next((n for n in names if _TERM.search(n)), names[0] if names else ast.unparse(term))


def is_live(node: ast.AST, bound: dict[str, list[ast.Assign]]) -> bool:
    """Whether it is a call, or a name that a call has made in this function."""
    if isinstance(node, ast.Call):
        return not _cuts(node)
    if isinstance(node, ast.Name):
        return any(isinstance(b.value, ast.Call) and not _cuts(b.value) for b in bound.get(node.id, ()))
    return False
