"""Two things in a script that are one: weights kept by reference and subtracted from themselves, a derivative taken twice from
the same function where that of the derivative was meant.

Both are read in the source. A copy of weights is made by clone() (PyTorch's documentation: parameters() gives the parameters
themselves). torch.autograd.grad differentiates its first argument.
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from .detached_terms import DetachedTerm
from .source_nodes import dotted, inside, scopes, shown_in

_KEPT = re.compile(r"\.(named_)?parameters\(\)")
_AGAIN = re.compile(r"autograd[\w. ]*\bgrad\b")
_NO_COPY = frozenset({"detach", "view", "flatten"})
"""Methods that give the same values in the same memory, mostly."""
_SECOND = re.compile(r"([rstxyz])\1$|2")
"""Names of second derivatives, by a coordinate twice or a number: u_xx, d2u."""
_NUMBERED = re.compile(r"\d")

_LISTS = frozenset({"list", "tuple", "dict"})
_Loop = ast.For | ast.comprehension


class RepeatedDerivative(NamedTuple):
    """A call of torch.autograd.grad that gives what an earlier one gave."""

    line: int
    function: str
    text: str
    target: str
    earlier: str
    """Name of what the earlier call gave."""
    output: str
    """What both differentiate."""


class _Alias(NamedTuple):
    model: str
    made: ast.Assign
    by_name: bool


def may_be_one(text: str) -> bool:
    """Whether a text is worth a parse."""
    return (" - " in text and _KEPT.search(text) is not None) or _AGAIN.search(text) is not None


def own_differences(tree: ast.Module, source: str) -> Iterator[DetachedTerm]:
    """Differences of a model's weights and those same weights, one for each loop."""
    if not _KEPT.search(source):
        return
    lines = source.split("\n")
    for holder, function, scope in _places(tree):
        aliases = {name: alias for name, alias in _aliases(scope).items() if _bound_once(name, alias, scope)}
        aliases |= {n: a for n, a in _aliases(holder).items() if n.startswith("self.") and _bound_once(n, a, holder)}
        for node in inside(scope) if aliases else ():
            for loop, body in _loops(node):
                for name, alias in aliases.items():
                    found = next(_subtracted(loop, body, name, alias), None)
                    if found is not None:
                        yield DetachedTerm(
                            found.lineno, function, shown_in(found, lines), name, alias.made.lineno,
                            shown_in(alias.made, lines), "own_difference",
                        )  # fmt: skip


def _places(tree: ast.Module) -> Iterator[tuple[ast.AST, str, ast.AST]]:
    """(class or the function again, name, scope) of each function and of the file."""
    owners = {id(f): c for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for f in c.body}
    for scope, function in scopes(tree):
        yield owners.get(id(scope), scope), function, scope


def _aliases(scope: ast.AST) -> dict[str, _Alias]:
    nodes = ast.walk(scope) if isinstance(scope, ast.ClassDef) else inside(scope)
    found: dict[str, _Alias] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and (name := dotted(node.targets[0])):
            kept = _parameters_of(node.value)
            if kept is not None:
                found[name] = _Alias(kept[0], node, kept[1])
    return found


def _parameters_of(value: ast.expr) -> tuple[str, bool] | None:
    """(model, whether by name) of a collection that holds a model's parameters themselves."""
    match value:
        case ast.Call(func=ast.Name(id=made), args=[held], keywords=[]) if made in _LISTS:
            return _parameters_of(held) or _called(held)
        case ast.ListComp(elt=elt, generators=[ast.comprehension(target=target, iter=over, ifs=[])]):
            named = dotted(target)
            return _called(over) if named and _same(elt) == named else None
        case ast.DictComp(
            value=elt, generators=[ast.comprehension(target=ast.Tuple(elts=[_, target]), iter=over, ifs=[])]
        ):
            return _called(over) if _same(elt) == dotted(target) else None
        case _:
            return None


def _called(value: ast.expr) -> tuple[str, bool] | None:
    match value:
        case ast.Call(func=ast.Attribute(value=model, attr="parameters" | "named_parameters" as how), args=[]):
            return (dotted(model), how == "named_parameters") if dotted(model) else None
        case _:
            return None


def _same(value: ast.expr) -> str:
    """The name whose memory a value shows: ``w.data``, ``w.detach()``; with its index, ``kept[name]``."""
    match value:
        case ast.Call(func=ast.Attribute(value=held, attr=name)) if name in _NO_COPY:
            return _same(held)
        case ast.Attribute(value=held, attr="data"):
            return _same(held)
        case ast.Subscript(value=held, slice=ast.Name(id=index)):
            return f"{dotted(held)}[{index}]"
        case _:
            return dotted(value)


def _bound_once(name: str, alias: _Alias, scope: ast.AST) -> bool:
    """Whether a name is bound once, and its model not after it."""
    nodes = list(ast.walk(scope) if isinstance(scope, ast.ClassDef) else inside(scope))
    stored = [n for n in nodes if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Store)]
    times = [n for n in stored if dotted(n) == name]
    models = [n for n in stored if dotted(n) == alias.model]
    made = alias.made.lineno, alias.made.col_offset
    later = [n for n in models if (n.lineno, n.col_offset) > made]
    return len(times) == 1 and (len(models) <= 1 if isinstance(scope, ast.ClassDef) else not later)


def _loops(node: ast.AST) -> Iterator[tuple[_Loop, list[ast.AST]]]:
    match node:
        case ast.For(body=body):
            yield node, list(body)
        case ast.ListComp(elt=elt, generators=[loop]) | ast.GeneratorExp(elt=elt, generators=[loop]):
            yield loop, [elt]
        case _:
            pass


def _subtracted(loop: _Loop, body: list[ast.AST], name: str, alias: _Alias) -> Iterator[ast.BinOp]:
    """Differences in a loop over a model's weights and those that are kept under a name."""
    pair = _pair(loop, name, alias)
    if pair is None:
        return
    for part in body:
        for node in ast.walk(part):
            match node:
                case ast.BinOp(left=left, op=ast.Sub(), right=right) if {_same(left), _same(right)} == pair:
                    yield node
                case _:
                    pass


def _pair(loop: _Loop, name: str, alias: _Alias) -> set[str] | None:
    """The two names of one weight in a loop."""
    match loop.iter, loop.target:
        case ast.Call(func=ast.Name(id="zip"), args=[one, other]), ast.Tuple(elts=[first, second]):
            sides = [(one, first, other, second), (other, second, one, first)]
            for own, target, kept, its in sides:
                if _called(own) == (alias.model, False) and dotted(kept) == name and not alias.by_name:
                    return {dotted(target), dotted(its)}
        case over, ast.Tuple(elts=[ast.Name(id=index), target]) if alias.by_name:
            if _called(over) == (alias.model, True):
                return {dotted(target), f"{name}[{index}]"}
        case _:
            pass
    return None


def repeated_derivatives(tree: ast.Module, source: str) -> Iterator[RepeatedDerivative]:
    """Second derivatives that are the first one again."""
    if not _AGAIN.search(source):
        return
    lines = source.split("\n")
    for scope, function in scopes(tree):
        nodes = [n for n in inside(scope) if isinstance(n, ast.Assign) and len(n.targets) == 1]
        taken: dict[tuple[str, str], tuple[ast.Assign, str]] = {}
        for node in sorted(nodes, key=lambda n: n.lineno):
            target, what = dotted(node.targets[0]), _derivative(node.value)
            if what is None or not target:
                continue
            output, key = what
            earlier, name = taken.get(key, (None, ""))
            if earlier is None or _changed(nodes, output, earlier.lineno, node.lineno):
                taken[key] = node, target
            elif _SECOND.search(target) and not (_SECOND.search(name) or _NUMBERED.search(name)):
                text = shown_in(node, lines)
                yield RepeatedDerivative(node.lineno, function, text, target, name, output)


def _derivative(value: ast.expr) -> tuple[str, tuple[str, str]] | None:
    """(what is differentiated, it and by what) of a call of torch.autograd.grad."""
    if isinstance(value, ast.Subscript):
        value = value.value
    if not isinstance(value, ast.Call) or dotted(value.func) not in {"torch.autograd.grad", "autograd.grad", "grad"}:
        return None
    given = {k.arg: k.value for k in value.keywords}
    output = value.args[0] if value.args else given.get("outputs")
    by = value.args[1] if len(value.args) > 1 else given.get("inputs")
    if output is None or by is None or not dotted(output):
        return None
    return dotted(output), (dotted(output), ast.dump(by))


def _changed(nodes: list[ast.Assign], name: str, first: int, last: int) -> bool:
    return any(first < n.lineno < last and dotted(n.targets[0]) == name for n in nodes)
