"""Best weights that a training loop keeps by reference: read in the source, before they are restored."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from .source_nodes import dotted, inside, scopes, shown_in

_STATE_KEPT = re.compile(
    r"^[ \t]+[\w.]+[ \t]*=[^\n=]*\.state_dict\(\)[ \t})]*(?:#[^\n]*)?$|^[ \t]+[\w.]*best\w*[ \t]*=[ \t]*\{",
    re.MULTILINE,
)
_MODEL_KEPT = re.compile(
    r"^[ \t]+[\w., ]*[bB]est[\w., ]*=[\w., \t]*(?:[mM]odel|[nN]et)[\w., \t]*(?:#[^\n]*)?$", re.MULTILINE
)

_COPIES = re.compile(r"FullyShardedDataParallel|FSDP|fully_shard|deepspeed", re.IGNORECASE)
"""Wrappers whose state_dict() may gather the shards into new tensors."""

_NO_MODEL = re.compile(r"opt|sched|scaler|loader|sampler|dataset|loss|crit|acc|metric", re.IGNORECASE)
_MODEL = re.compile(r"model|net", re.IGNORECASE)
_SHALLOW = frozenset({"dict", "OrderedDict", "copy"})
"""Calls that make a new dictionary of the same tensors."""

_LOOKS = frozenset({"print", "len", "type", "id", "isinstance", "bool"})
_LEAVES = (ast.Break, ast.Return, ast.Raise)
_SAMENESS = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)


class KeptAlias(NamedTuple):
    """A name that a loop gives to a model or its state_dict(), which goes on being trained until the name is used."""

    line: int
    function: str
    """Function that holds it; ``<module>`` outside all."""
    text: str
    target: str
    model: str
    whole: bool
    """Whether the model itself is kept, not its state_dict()."""
    loop: tuple[int, int]
    """First and last line of the loop."""
    used: int
    """Line behind the loop that uses the name."""
    use: str


class _Kept(NamedTuple):
    statement: ast.Assign
    target: str
    model: str
    whole: bool
    loop: ast.For | ast.AsyncFor | ast.While
    branches: tuple[ast.If, ...]
    """Those around the statement within the loop, from the outermost."""


def may_keep(text: str) -> bool:
    """Whether a text is worth a parse."""
    return (".state_dict()" in text and bool(_STATE_KEPT.search(text))) or (
        "best" in text and bool(_MODEL_KEPT.search(text))
    )


def kept_aliases(tree: ast.Module, source: str) -> Iterator[KeptAlias]:
    """All of a file, one for each loop and name."""
    if not may_keep(source):
        return
    lines = source.split("\n")
    shards = bool(_COPIES.search(source))
    for scope, function in scopes(tree):
        told: set[tuple[str, int]] = set()
        for kept in _kept(scope, None, ()):
            key = kept.target, kept.loop.lineno
            if key in told or (shards and not kept.whole) or not _stays(kept, tree, scope):
                continue
            use = _use(kept, scope)
            if use is not None:
                told.add(key)
                loop = kept.loop.lineno, kept.loop.end_lineno or kept.loop.lineno
                text = shown_in(kept.statement, lines)
                yield KeptAlias(
                    kept.statement.lineno, function, text, kept.target, kept.model, kept.whole, loop, use.lineno,
                    shown_in(use, lines),
                )  # fmt: skip


def _kept(
    node: ast.AST, loop: ast.For | ast.AsyncFor | ast.While | None, branches: tuple[ast.If, ...]
) -> Iterator[_Kept]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.For() | ast.AsyncFor() | ast.While():
                yield from _kept(child, child, ())
            case ast.If():
                yield from _kept(child, loop, (*branches, child))
            case ast.Assign(targets=[target], value=value) if loop is not None and branches:
                for name, model, whole in _pairs(target, value):
                    if _is_best(name, model, whole, branches):
                        yield _Kept(child, name, model, whole, loop, branches)
            case _:
                yield from _kept(child, loop, branches)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, str, bool]]:
    """(name, model, whether it is the model itself) of an assignment that copies no tensor."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, its in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, its)
        return
    name, model, state = dotted(target), dotted(value), _state_of(value)
    if name and state and not _NO_MODEL.search(state.rpartition(".")[2]):
        yield name, state, False
    elif name and model and _MODEL.search(name) and _MODEL.search(model) and not _NO_MODEL.search(model):
        yield name, model, True


def _state_of(value: ast.expr) -> str:
    """The model whose tensors are in a dictionary; empty where they are copied or there are none."""
    match value:
        case ast.Call(func=ast.Attribute(value=model, attr="state_dict"), args=[], keywords=[]):
            return dotted(model)
        case ast.Call(func=ast.Attribute(value=held, attr="copy"), args=[], keywords=[]):
            return _state_of(held)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[held], keywords=[]) if name in _SHALLOW:
            return _state_of(held)
        case ast.Dict(values=values):
            return next((state for v in values if (state := _state_of(v)) and _MODEL.search(state)), "")
        case _:
            return ""


def _is_best(name: str, model: str, whole: bool, branches: tuple[ast.If, ...]) -> bool:
    """Whether it is kept because something has become better: by its name, or by a bound that moves with it."""
    if name == model or any(isinstance(branch.body[-1], _LEAVES) for branch in branches):
        return False
    test, body = branches[-1].test, branches[-1].body
    if isinstance(test, ast.Compare) and all(isinstance(op, _SAMENESS) for op in test.ops):
        return False
    if "best" in name.lower():
        return True
    compared = {dotted(part) for node in ast.walk(test) if isinstance(node, ast.Compare) for part in ast.walk(node)}
    moved = {text for statement in body for text, _ in _bound(statement)}
    return not whole and bool(compared & moved - {""})


def _bound(node: ast.AST) -> Iterator[tuple[str, int]]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Store):
            yield dotted(part), part.lineno
        elif isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
            yield dotted(part.value) + "[]", part.lineno


def _stays(kept: _Kept, tree: ast.Module, scope: ast.AST) -> bool:
    """Whether the loop trains one object on, and nothing else is put under the name."""
    loop, model = kept.loop, kept.model
    bound = [text for text, _ in _bound(loop)]
    parts = model.split(".")
    if any(".".join(parts[: i + 1]) in bound for i in range(len(parts))):
        return False  # a new model each time
    aliases = sum(other.target == kept.target and other.model == model for other in _kept(scope, None, ()))
    if bound.count(kept.target) > aliases or kept.target + "[]" in bound:
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Global | ast.Nonlocal) and parts[0] in node.names:
            return False
        if len(parts) > 1 and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
            attribute = parts[-1]
            if any(text.endswith("." + attribute) and text.startswith("self.") for text, _ in _bound(node)):
                return False
    return True


def _use(kept: _Kept, scope: ast.AST) -> ast.expr | ast.stmt | None:
    """What uses the name behind the loop, before it stands for something else."""
    end = kept.loop.end_lineno or kept.loop.lineno
    again = min((line for text, line in _bound_in(scope) if text == kept.target and line > end), default=None)
    uses = [
        (node.lineno, parent)
        for parent, node in _loads(scope)
        if dotted(node) == kept.target and node.lineno > end and _uses(parent, node)
    ]
    line, found = min(uses, key=lambda use: use[0], default=(0, None))
    return found if again is None or line <= again else None


def _bound_in(scope: ast.AST) -> Iterator[tuple[str, int]]:
    for node in inside(scope):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield dotted(node), node.lineno


def _loads(scope: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.Name | ast.Attribute]]:
    """Each name and attribute that is read, with what reads it."""
    for parent in inside(scope):
        if not isinstance(parent, ast.expr | ast.stmt):
            continue
        held = [*ast.iter_child_nodes(parent), *(k.value for k in getattr(parent, "keywords", ()))]
        for node in held:
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield parent, node


def _uses(parent: ast.AST, node: ast.expr) -> bool:
    match parent:
        case ast.Call(func=called):
            return called is node or dotted(called) not in _LOOKS
        case ast.Return() | ast.Assign() | ast.Attribute() | ast.Subscript() | ast.Tuple() | ast.Dict():
            return True
        case _:
            return False
