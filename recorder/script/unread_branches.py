"""Modules of a forward whose results end in a variable that nothing reads: `x_ = cat([x0, self.post(h)])`, and `x` is returned.

Read in the source. Whether such a module gets a gradient another way is for the recording to say.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from .source_nodes import dotted, forwards, inside, shown_in

_FORWARD = re.compile(r"^[ \t]+def forward\(", re.MULTILINE)
_FUNCTION = re.compile(r"^[ \t]*(?:async )?def |^class ", re.MULTILINE)
_BOUND = re.compile(r"^[ \t]+(\w*[^\W_]\w*)[ \t]*=(?!=)(?![^\n]*\.(?:size\(|shape\b))", re.MULTILINE)
_WORD = re.compile(r"\w+")
_DYNAMIC = frozenset({"locals", "vars", "eval", "exec"})


class UnreadBranch(NamedTuple):
    """A variable of a forward that nothing reads, and the attributes of the module whose results it is made of."""

    line: int
    owner: str
    """Class of the forward."""
    attributes: tuple[str, ...]
    target: str
    text: str
    untouched: str
    """The argument that the forward returns as it was given; empty where it returns none."""


def may_hold_unread_branch(text: str) -> bool:
    """Whether a text is worth a parse."""
    return any(_has_unread(text, found.end()) for found in _FORWARD.finditer(text))


def _has_unread(text: str, begin: int) -> bool:
    after = _FUNCTION.search(text, begin)
    body = text[begin : after.start() if after else len(text)]
    bound = Counter(_BOUND.findall(body))
    if not bound or "self." not in body:
        return False
    words = Counter(_WORD.findall(body))
    return any(words[name] == times for name, times in bound.items())


def unread_branches(tree: ast.Module, source: str) -> Iterator[UnreadBranch]:
    """All of a file, one for each variable."""
    if not may_hold_unread_branch(source):
        return
    lines = source.split("\n")
    for owner, function in forwards(tree):
        yield from _of_forward(owner, function, lines)


def _of_forward(owner: str, function: ast.FunctionDef, lines: list[str]) -> Iterator[UnreadBranch]:
    nodes = list(ast.walk(function))
    names = [n for n in nodes if isinstance(n, ast.Name)]
    read = {n.id for n in names if not isinstance(n.ctx, ast.Store)}
    declared = {name for n in nodes if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    if read & _DYNAMIC:
        return
    made_of = _made_of(function)
    for node in inside(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                continue
        if name in read or name in declared or not name.strip("_"):
            continue
        attributes = _called(value, made_of)
        if attributes:
            text = shown_in(node, lines)
            yield UnreadBranch(node.lineno, owner, tuple(sorted(attributes)), name, text, _untouched(function, node))


def _made_of(function: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """Variable → the expressions that it is bound to."""
    found: dict[str, list[ast.expr]] = {}
    for node in inside(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
            case ast.For(target=target, iter=value):
                targets = [target]
            case _:
                continue
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    found.setdefault(part.id, []).append(value)
    return found


def _called(value: ast.expr, made_of: dict[str, list[ast.expr]]) -> set[str]:
    """Attributes of the module that are called for a value."""
    found, seen, todo = set[str](), set[str](), [value]
    while todo:
        for node in ast.walk(todo.pop()):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=attribute)):
                    found.add(attribute)
                case ast.Name(id=name, ctx=ast.Load()) if name not in seen:
                    seen.add(name)
                    todo += made_of.get(name, [])
                case _:
                    pass
    return found


def _untouched(function: ast.FunctionDef, node: ast.Assign) -> str:
    """The argument that the block of a statement returns, where nothing in this block binds it anew."""
    given = {a.arg for a in [*function.args.posonlyargs, *function.args.args[1:], *function.args.kwonlyargs]}
    for parent in ast.walk(function):
        for block in (getattr(parent, part, None) for part in ("body", "orelse")):
            if isinstance(block, list) and node in block:
                bound = {
                    n.id for s in block for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                }
                ends = [s.value for s in block if isinstance(s, ast.Return)]
                gone = [dotted(v) for e in ends for v in (e.elts if isinstance(e, ast.Tuple) else [e]) if v is not None]
                return next((name for name in gone if name in given - bound), "")
    return ""
