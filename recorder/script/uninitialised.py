"""Parameters that a class makes of memory as it is and never fills: `self.bias = nn.Parameter(torch.empty(n))`, and no more."""

import ast
import linecache
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from .source_nodes import dotted, shown_in

_MAY = re.compile(r"Parameter\(\s*(torch\.)?(empty|Tensor|FloatTensor)\(")
_LARGEST = 300_000
"""Letters of a file: a parse takes half a second for each million."""

_READS_ONLY = frozenset({"forward", "extra_repr", "__repr__"})
"""Methods that use a parameter: wherever else its name stands, it may be filled."""

_BY_NAME = frozenset(
    {"getattr", "setattr", "_parameters", "named_parameters", "parameters", "apply", "children", "modules"}
)
"""With these a class may reach each of its parameters without a name."""


_REGISTER = frozenset({"register_parameter", "register_buffer", "register_module", "add_module"})


class Unfilled(NamedTuple):
    """One such assignment."""

    line: int
    owner: str
    """Name of the class."""
    attribute: str
    text: str


@cache
def unfilled(file: str) -> tuple[Unfilled, ...]:
    """All of a file; nothing where it cannot be read, is no Python, or is very large."""
    text = "".join(linecache.getlines(file))
    if len(text) > _LARGEST or _MAY.search(text) is None:
        return ()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    lines, touched = text.split("\n"), _touched(tree)
    return tuple(
        found
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef) and not _reaches_all(owner)
        for found in _in_class(owner, touched, lines)
    )


def _in_class(owner: ast.ClassDef, touched: dict[str, set[int]], lines: list[str]) -> Iterator[Unfilled]:
    written = {m.name for m in owner.body if isinstance(m, ast.FunctionDef)}
    for method in owner.body:
        if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
            continue
        called = {dotted(n.func) for n in ast.walk(method) if isinstance(n, ast.Call)}
        if any(c.count(".") == 1 and c.startswith("self.") and c[5:] not in written | _REGISTER for c in called):
            continue  # a method of a class above, which may fill what it finds
        for node in ast.walk(method):
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=name) as target], value=value
                ) if _is_memory(value) and touched.get(name, set()) <= {id(target)}:
                    yield Unfilled(node.lineno, owner.name, name, shown_in(node, lines))
                case _:
                    pass


def _is_memory(value: ast.expr) -> bool:
    """``nn.Parameter(torch.empty(...))`` or, of sizes, ``nn.Parameter(torch.Tensor(...))``."""
    match value:
        case ast.Call(func=made, args=[ast.Call(func=inner, args=[first, *more]), *_]) if (
            dotted(made).rpartition(".")[2] == "Parameter"
        ):
            kind = dotted(inner).rpartition(".")[2]
            if kind == "empty":
                return True
            sizes = all(not isinstance(a, (ast.List, ast.Tuple, ast.ListComp, ast.Starred)) for a in (first, *more))
            whole = isinstance(first, ast.Constant) and isinstance(first.value, int)
            return kind in {"Tensor", "FloatTensor"} and sizes and (bool(more) or whole)
        case _:
            return False


def _touched(tree: ast.Module) -> dict[str, set[int]]:
    """Name of an attribute → its places but those in methods that use it: there only where something changes it."""
    reading = {
        id(node)
        for method in ast.walk(tree)
        if isinstance(method, ast.FunctionDef) and method.name in _READS_ONLY
        for node in ast.walk(method)
    }
    changed = {
        id(inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
        for inside in ast.walk(node)
    }
    touched: dict[str, set[int]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(name)):
                touched.setdefault(name, set()).add(id(node))
            case ast.Attribute(attr=name, ctx=context) if (
                id(node) not in reading or id(node) in changed or not isinstance(context, ast.Load)
            ):
                touched.setdefault(name, set()).add(id(node))
            case _:
                pass
    return touched


def _reaches_all(owner: ast.ClassDef) -> bool:
    names = {n.id for n in ast.walk(owner) if isinstance(n, ast.Name)}
    return bool(_BY_NAME & (names | {n.attr for n in ast.walk(owner) if isinstance(n, ast.Attribute)}))
