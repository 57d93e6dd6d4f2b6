"""Two listings of folders whose entries are paired by their places, read in the source."""

import ast
import linecache
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

from .source_nodes import dotted, inside, scopes, shown_in

_LISTS = re.compile(r"\b(?:listdir|scandir|i?glob|rglob|iterdir)\(")

_LARGEST = 300_000
"""Letters of a file: a parse takes half a second for each million."""

_OF_MODULES = {
    "os.listdir": "listdir",
    "listdir": "listdir",
    "os.scandir": "scandir",
    "scandir": "scandir",
    "glob.glob": "glob",
    "glob": "glob",
    "glob.iglob": "iglob",
    "iglob": "iglob",
}
_OF_PATHS = frozenset({"glob", "iterdir"})

_KEEP_ORDER = frozenset(
    {"list", "tuple", "tqdm", "np.array", "np.asarray", "np.stack", "numpy.array", "numpy.asarray", "numpy.stack"}
    | {"torch.stack", "torch.tensor", "torch.cat", "torch.from_numpy", "torch.as_tensor", "torch.FloatTensor"}
)
"""Calls whose result has the order of their first argument."""

_PAIR = frozenset({"zip", "TensorDataset", "train_test_split"})
_LOOK = frozenset({"len", "print", "range", "enumerate", "set", "str", "isinstance", "iter", "bool", "map", "filter"})
_HARMLESS = frozenset({"append", "index", "count", "copy", "shape", "size"})


class Listing(NamedTuple):
    """A call that lists a folder, in no order that it promises."""

    line: int
    kind: str
    """The function: listdir, scandir, glob, iglob, or of a path: path.glob, path.iterdir."""
    text: str
    folder: str
    """Arguments as they are written."""


class PairedListings(NamedTuple):
    """A place where entries of two listings meet by their places."""

    line: int
    function: str
    text: str
    first: Listing
    second: Listing


@cache
def paired_listings(file: str) -> tuple[PairedListings, ...]:
    """All of a file; nothing where it cannot be read, is no Python, or is very large."""
    lines = linecache.getlines(file)
    text = "".join(lines)
    if len(text) > _LARGEST or len(_LISTS.findall(text)) < 2:
        return ()
    try:
        return tuple(paired_in(ast.parse(text), text))
    except (SyntaxError, ValueError, RecursionError):
        return ()


def paired_in(tree: ast.Module, text: str) -> Iterator[PairedListings]:
    """What a parsed text holds, one for each two listings."""
    lines, told = text.split("\n"), set[tuple[int, int]]()
    owners = {id(f): c for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for f in ast.walk(c)}
    for scope, function in scopes(tree):
        if not any(_pairs_places(node) for node in inside(scope)):
            continue
        names = _Names(scope, owners.get(id(scope)), tree, lines)
        for node, sides in _meetings(scope):
            if names.compared():
                break
            for one, other in combinations(sides, 2):
                for first, second in ((a, b) for a in names.listings(one) for b in names.listings(other)):
                    key = min(first.line, second.line), max(first.line, second.line)
                    if first.line != second.line and first.folder != second.folder and key not in told:
                        told.add(key)
                        shown = shown_in(node, lines)
                        yield PairedListings(node.lineno, function, shown, first, second)


def _pairs_places(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(slice=ast.Name()):
            return True
        case ast.Call(func=called):
            return dotted(called).rpartition(".")[2] in _PAIR
        case _:
            return False


def _meetings(scope: ast.AST) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """What pairs several things by their places, with these things."""
    by_index: dict[str, dict[str, ast.expr]] = {}
    at: dict[str, ast.expr] = {}
    for node in inside(scope):
        match node:
            case ast.Call(func=called, args=args) if dotted(called).rpartition(".")[2] in _PAIR:
                yield node, [arg for arg in args if not isinstance(arg, ast.Starred)]
            case ast.Subscript(value=held, slice=ast.Name(id=index), ctx=ast.Load()) if dotted(held):
                by_index.setdefault(index, {}).setdefault(dotted(held), held)
                at[index] = node
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=index), _]),
                iter=ast.Call(func=ast.Name(id="enumerate"), args=[held, *_]),
            ):
                by_index.setdefault(index, {}).setdefault(ast.unparse(held), held)
            case _:
                pass
    for index, held in by_index.items():
        if len(held) > 1 and index in at:
            yield at[index], list(held.values())


class _Names:
    """What names of a function, and attributes of its class, are bound to."""

    def __init__(self, scope: ast.AST, owner: ast.ClassDef | None, tree: ast.Module, lines: Sequence[str]) -> None:
        self._lines = lines
        self._scope = scope
        self._bound: dict[str, list[ast.expr | None]] = {}
        """None stands for what is no listing."""
        for node in inside(scope):
            self._bind(node, attributes=owner is None)
        if not isinstance(scope, ast.Module):
            self._parameters(scope)
        if owner is not None:
            for node in ast.walk(owner):
                self._bind(node, attributes=True, names=False)
            for made in owner.body:
                if isinstance(made, ast.FunctionDef) and made.name == "__init__" and made is not scope:
                    self._parameters(made)
                    for node in inside(made):
                        self._bind(node, attributes=False)
        self._spoil(scope if owner is None else owner)
        self._sorted = {
            node.func.value.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"sort", "reverse", "shuffle"}
            and isinstance(node.func.value, ast.Attribute)
        }

    def listings(self, value: ast.expr | None, seen: frozenset[str] = frozenset()) -> list[Listing]:
        """The listings of whose entries something is a row, in their order; empty where that is not certain."""
        match value:
            case ast.Call() if (found := _listing(value, self._lines)) is not None:
                return [found]
            case ast.Call(func=called, args=[held, *_]) if dotted(called) in _KEEP_ORDER:
                return self.listings(held, seen)
            case ast.Call(func=ast.Name(id="map" | "filter"), args=[_, held]):
                return self.listings(held, seen)
            case ast.ListComp(generators=[made]) | ast.GeneratorExp(generators=[made]):
                return self.listings(made.iter, seen)
            case ast.Subscript(value=held, slice=ast.Slice(step=None)):
                return self.listings(held, seen)
            case ast.Name() | ast.Attribute():
                return self._of_name(dotted(value), seen)
            case _:
                return []

    def _of_name(self, name: str, seen: frozenset[str]) -> list[Listing]:
        values = self._bound.get(name)
        if not values or name in seen or name.rpartition(".")[2] in self._sorted:
            return []
        found: list[Listing] = []
        for value in values:
            if isinstance(value, ast.List) and not value.elts:
                continue  # filled by append
            if isinstance(value, ast.expr) and _mentions(value, name) and _keeps(value, name):
                continue  # itself with some left out
            here = self.listings(value, seen | {name})
            if not here:
                return []
            found += here
        return found

    def _parameters(self, function: ast.AST) -> None:
        for argument in ast.walk(getattr(function, "args", function)):
            if isinstance(argument, ast.arg):
                self._bound.setdefault(argument.arg, []).append(None)

    def _bind(self, node: ast.AST, *, attributes: bool, names: bool = True) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value, attributes, names)
            case ast.AnnAssign(target=target, value=value):
                self._assign(target, value, attributes, names)
            case ast.AugAssign(target=target) | ast.NamedExpr(target=target):
                self._assign(target, None, attributes, names)
            case ast.For(target=target, iter=source, body=body):
                if names:
                    self._assign(target, None, attributes, names)
                for call in _appends(body):
                    held = dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""
                    if held and ("." in held if not names else True):
                        nested = any(call in ast.walk(n) for s in body for n in ast.walk(s) if isinstance(n, ast.For))
                        self._bound.setdefault(held, []).append(None if nested else source)
            case ast.withitem(optional_vars=ast.expr() as target):
                self._assign(target, None, attributes, names)
            case _:
                pass

    def _assign(self, target: ast.expr, value: ast.expr | None, attributes: bool, names: bool) -> None:
        if isinstance(target, ast.Tuple):
            several = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
            for i, one in enumerate(target.elts):
                self._assign(one, several[i] if several else None, attributes, names)
            return
        held = target.value if isinstance(target, ast.Subscript) else target
        name = dotted(held)
        if name and (attributes if "." in name else names):
            self._bound.setdefault(name, []).append(None if held is not target else value)

    def _spoil(self, where: ast.AST) -> None:
        """Names whose order something may change, or that something else is given."""
        for node in ast.walk(where):
            if not isinstance(node, ast.Call):
                continue
            called = dotted(node.func)
            if isinstance(node.func, ast.Attribute) and node.func.attr not in _HARMLESS:
                self._not(dotted(node.func.value))
            if called in _LOOK | _KEEP_ORDER or called.rpartition(".")[2] in _PAIR:
                continue
            for argument in [*node.args, *(k.value for k in node.keywords)]:
                self._not(dotted(argument))

    def _not(self, name: str) -> None:
        if name in self._bound:
            self._bound[name].append(None)

    def compared(self) -> bool:
        """Whether what is paired may be compared, by its names."""
        return any(
            isinstance(node, ast.Compare)
            and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
            and not any(isinstance(side, ast.Constant) or _counts(side) for side in (node.left, *node.comparators))
            for node in inside(self._scope)
        )


def _listing(call: ast.Call, lines: Sequence[str]) -> Listing | None:
    kind = _OF_MODULES.get(dotted(call.func))
    if kind is None and isinstance(call.func, ast.Attribute) and call.func.attr in _OF_PATHS:
        kind = f"path.{call.func.attr}"
    if kind is None:
        return None
    return Listing(call.lineno, kind, shown_in(call, lines), ast.unparse(call))


def _counts(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Attribute(attr="shape" | "size"):
            return True
        case ast.Subscript(value=held):
            return _counts(held)
        case _:
            return False


def _appends(body: list[ast.stmt]) -> Iterator[ast.Call]:
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                yield node


def _mentions(value: ast.expr, name: str) -> bool:
    return any(isinstance(n, ast.Name | ast.Attribute) and dotted(n) == name for n in ast.walk(value))


def _keeps(value: ast.expr, name: str) -> bool:
    """Whether a name's new value has the order of the old one."""
    match value:
        case ast.ListComp(generators=[made]):
            return dotted(made.iter) == name
        case ast.Call(func=called, args=[held]) if dotted(called) in _KEEP_ORDER:
            return dotted(held) == name or _keeps(held, name)
        case ast.Subscript(value=held, slice=ast.Slice(step=None)):
            return dotted(held) == name
        case _:
            return False
