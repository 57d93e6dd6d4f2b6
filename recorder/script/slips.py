"""Mistakes that can be read in a script's source: results that nobody takes, one module several times in a list."""

import ast
import linecache
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

_COMPUTE = frozenset({
    "masked_fill", "masked_scatter", "index_fill", "index_add", "index_copy", "index_put", "scatter_add", "scatter_reduce",
    "clamp", "clamp_min", "clamp_max", "nan_to_num", "softmax", "log_softmax", "sigmoid", "tanh", "relu", "dropout",
})  # fmt: skip
"""Operators that only compute, of names that nothing else has whose result may be left lying."""

_INTO = frozenset({"out", "inplace", "copy"})
"""Arguments by which a function writes into a tensor that is there."""

_OF_MODULES = frozenset({"torch", "F", "functional", "nn"})
"""Names under which torch's functions are called."""

_WORTH = re.compile(
    rf"^[ \t]+[\w.\[\]]+\.(?:{'|'.join(sorted(_COMPUTE))})\(|\[[ \t]*[\w.]+\([^\n]*\)[ \t]*\][ \t)]*\*", re.MULTILINE
)
"""What a text has to hold before it is parsed."""

_LARGEST = 300_000
"""Letters of a file: a parse takes half a second for each million."""

_LONGEST = 100


class Discarded(NamedTuple):
    """A statement that computes a new tensor and leaves it lying."""

    line: int
    function: str
    """Function that holds it; ``<module>`` outside all."""
    text: str
    target: str
    """What stays as it is."""
    called: str
    method: bool
    """Whether it is a method of the tensor, not a function of torch."""


class Repeated(NamedTuple):
    """A list of one new object several times: ``[Block(8)] * 4``."""

    line: int
    text: str
    made: str
    """Name of what is called to make the object."""
    element: str


class Slips(NamedTuple):
    """All of a file, in order of lines."""

    discarded: tuple[Discarded, ...] = ()
    repeated: tuple[Repeated, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    """(function, name that it calls), where something was found."""


@cache
def slips(file: str) -> Slips:
    """What a file holds; nothing where it cannot be read, is no Python, or is very large."""
    text = "".join(linecache.getlines(file))
    if len(text) > _LARGEST or not _WORTH.search(text):
        return Slips()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return Slips()
    shown = {id(statement) for statement in tree.body}  # a notebook shows the value of a cell's last statement
    left, again, called = list[Discarded](), list[Repeated](), set[tuple[str, str]]()
    for node, function in _nodes(tree, "<module>"):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=name)) as call) if (
                name in _COMPUTE and id(node) not in shown
            ):
                found = _discarded(call, target, name, function, text)
                if found is not None:
                    left.append(found)
            case ast.BinOp(left=ast.List(elts=[ast.Call(func=made) as element]), op=ast.Mult()) if name := _last_name(
                made
            ):
                again.append(Repeated(node.lineno, _shown(node, text), name, _shown(element, text)))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                called.add((function, name))
            case _:
                pass
    return Slips(tuple(left), tuple(again), tuple(sorted(called)) if left else ())


def running(file: str, roots: set[str]) -> set[str]:
    """Functions of a file that run where those of ``roots`` do: what they call by name, and what these call."""
    calls = slips(file).calls
    found, todo = set(roots), list(roots)
    while todo:
        function = todo.pop()
        new = {name for caller, name in calls if caller == function} - found
        found |= new
        todo.extend(new)
    return found


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr | ast.stmt):
            yield child, function
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield from _nodes(child, inside)


def _discarded(call: ast.Call, target: ast.expr, name: str, function: str, source: str) -> Discarded | None:
    root = target
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name) or _INTO & {k.arg for k in call.keywords}:
        return None
    method = _last_name(target) not in _OF_MODULES
    if not method and not call.args:
        return None
    kept = target if method else call.args[0]
    return Discarded(call.lineno, function, _shown(call, source), _shown(kept, source), name, method)


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _shown(node: ast.AST, source: str) -> str:
    """As the script has it written, in one line."""
    text = " ".join((ast.get_source_segment(source, node) or "").split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
