"""Loops over parameters that assign to the loop's own variable: the name is bound anew, and the parameter stays as it is."""

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from .lost_results import Discarded
from .source_nodes import dotted, inside, scopes, shown_in

_TENSORS = frozenset({"parameters", "buffers"})
_NAMED = frozenset({"named_parameters", "named_buffers"})
_ALL_OF = frozenset({"list", "tuple", "iter"})

_COMPUTE = frozenset({
    "add", "sub", "mul", "div", "lerp", "clamp", "clip", "where", "zeros_like", "ones_like", "randn_like",
})  # fmt: skip
"""Operators that give a new tensor and change none."""

_CARRIES = frozenset({"data", "detach", "clone", "to", "cpu", "cuda", "float"})
"""Parts and methods by which a tensor is passed on."""

_WORDS = (".parameters()", "_parameters()", "state_dict()")
_LOOP = re.compile(r"^[ \t]*for[ \t]+([\w(][\w, \t()]*?)[ \t]+in[ \t]", re.MULTILINE)
_NAMES = re.compile(r"\w+")
_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
"""What reads a name when it is called, not where it stands."""

_REACH = 1500
"""Letters of a loop in which its variables are looked for."""


def may_rebind(text: str) -> bool:
    """Whether a text is worth a parse."""
    if not any(word in text for word in _WORDS):
        return False
    for loop in _LOOP.finditer(text):
        names = "|".join(_NAMES.findall(loop[1]))
        if re.search(rf"\n[ \t]+(?:{names})[ \t]*=[ \t]", text[loop.end() : loop.end() + _REACH]):
            return True
    return False


def rebound(tree: ast.Module, source: str) -> Iterator[Discarded]:
    """Every such assignment of a file whose value nothing reads."""
    if not may_rebind(source):
        return
    lines, held, makers = source.split("\n"), _held(tree), _makers(tree)
    for scope, function in scopes(tree):
        nodes = list(inside(scope))
        shared = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
        for loop in nodes:
            if not isinstance(loop, ast.For):
                continue
            tensors = _tensors(loop.target, loop.iter, held)
            if not tensors:
                continue
            for node in (n for statement in loop.body for n in (statement, *inside(statement))):
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in tensors - shared:
                        if _gives(value, name, tensors) and not _read(name, node, loop, scope):
                            text, written = shown_in(node, lines), shown_in(value, lines)
                            yield Discarded(
                                node.lineno,
                                makers.get(id(scope), function),
                                text,
                                name,
                                "rebound",
                                meant=f"{name}.data.copy_({written})",
                            )
                    case _:
                        pass


def _held(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """Values that names and attributes of the file are given, by name."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and (name := dotted(node.targets[0])):
            found.setdefault(name, []).append(node.value)
    return found


def _makers(tree: ast.Module) -> dict[int, str]:
    """Each ``__init__`` with the name by which it is called: that of its class."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {id(f): c.name for c in classes for f in c.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"}


def _tensors(target: ast.expr, source: ast.expr, held: dict[str, list[ast.expr]], deep: bool = True) -> set[str]:
    """Variables of a loop that stand for parameters of a module or tensors of its state; empty where that is not certain."""
    match source:
        case ast.Call(func=ast.Attribute(attr=name)) if name in _TENSORS:
            return {target.id} if isinstance(target, ast.Name) else set()
        case ast.Call(func=ast.Attribute(attr=name)) if name in _NAMED:
            return _second(target)
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Attribute(attr="state_dict")), attr="items")):
            return _second(target)
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Attribute(attr="state_dict")), attr="values")):
            return {target.id} if isinstance(target, ast.Name) else set()
        case ast.Call(func=ast.Name(id="zip"), args=[_, *_] as parts) if isinstance(target, ast.Tuple):
            if len(parts) != len(target.elts):
                return set()
            found = [_tensors(t, part, held, deep) for t, part in zip(target.elts, parts, strict=True)]
            return set().union(*found) if all(found) else set()
        case ast.Call(func=ast.Name(id="enumerate"), args=[part]) if isinstance(target, ast.Tuple):
            return _tensors(target.elts[-1], part, held, deep)
        case ast.Call(func=ast.Name(id=name), args=[part]) if name in _ALL_OF:
            return _tensors(target, part, held, deep)
        case ast.Name() | ast.Attribute() if deep and (values := held.get(dotted(source))):
            found = [_tensors(target, value, held, deep=False) for value in values]
            return found[0] if all(found) else set()
        case _:
            return set()


def _second(target: ast.expr) -> set[str]:
    match target:
        case ast.Tuple(elts=[_, ast.Name(id=name)]):
            return {name}
        case _:
            return set()


def _gives(value: ast.expr, name: str, tensors: Collection[str]) -> bool:
    """Whether a value is another of the loop's tensors, or is computed from them out of place."""
    match value:
        case ast.Name(id=other):
            return other != name and other in tensors
        case ast.BinOp():
            return _computes(value) and any(isinstance(n, ast.Name) and n.id in tensors for n in ast.walk(value))
        case ast.Call(func=ast.Attribute(attr=called)) if called in _COMPUTE:
            return _computes(value) and any(isinstance(n, ast.Name) and n.id in tensors for n in ast.walk(value))
        case ast.Call(func=ast.Attribute(value=inner, attr=called)) if called in _CARRIES:
            return _computes(value) and _gives(inner, name, tensors)
        case ast.Attribute(value=inner, attr="data"):
            return _gives(inner, name, tensors)
        case _:
            return False


def _computes(value: ast.expr) -> bool:
    """Whether it changes nothing: all that it calls gives a new tensor."""
    for node in ast.walk(value):
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda):
            return False
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Attribute) and node.func.attr in _COMPUTE | _CARRIES
        ):
            return False
    return True


def _read(name: str, made: ast.Assign, loop: ast.For, scope: ast.AST) -> bool:
    """Whether anything may read the new value: what follows in the loop, or behind it before the name is bound again."""
    own = {id(node) for node in ast.walk(made)}
    inner = [n for n in ast.walk(loop) if n is not loop and isinstance(n, ast.For | ast.While) and made in ast.walk(n)]
    begin = min((n.lineno for n in inner), default=made.lineno)
    nodes = (n for n in ast.walk(scope) if isinstance(n, ast.stmt | ast.expr) and n is not loop)
    bound = [n for n in nodes if _binds(n, name)]
    later = {id(n) for f in ast.walk(scope) if isinstance(f, _LATER) and f is not scope for n in ast.walk(f)}
    elsewhere = {id(n) for b in bound for n in ast.walk(b) if b.lineno > (loop.end_lineno or loop.lineno)}
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
        and (node.lineno >= begin or id(node) in later)
        and id(node) not in own
        and id(node) not in elsewhere
        for node in ast.walk(scope)
    )


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.For(target=target):
            targets: Sequence[ast.AST] = [target]
        case ast.ListComp(generators=made) | ast.SetComp(generators=made) | ast.GeneratorExp(generators=made):
            targets = [g.target for g in made]
        case ast.DictComp(generators=made):
            targets = [g.target for g in made]
        case _:
            return False
    return any(isinstance(n, ast.Name) and n.id == name for target in targets for n in ast.walk(target))
