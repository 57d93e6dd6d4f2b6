"""Parts of a model whose output its own forward detaches, read in the source: ``adj = normalise(self.graph(x)).detach()``."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from .source_nodes import forwards, shown_in

_CUT = ".detach()"


class DetachedPart(NamedTuple):
    """What a forward detaches, and the attribute of the module that made it."""

    line: int
    owner: str
    """Class of the forward."""
    attribute: str
    text: str


def may_cut(text: str) -> bool:
    """Whether a text is worth a parse."""
    return _CUT in text and "def forward(" in text


def detached_parts(tree: ast.Module, source: str) -> Iterator[DetachedPart]:
    """All of a file, one for each attribute and line."""
    if not may_cut(source):
        return
    lines = source.split("\n")
    for owner, function in forwards(tree):
        yield from _of_forward(owner, function, lines)


def _of_forward(owner: str, function: ast.FunctionDef, lines: list[str]) -> Iterator[DetachedPart]:
    made_by: dict[str, set[str]] = {}
    """Variable → attributes of the module that made it with a graph, in the order of lines."""
    statements = sorted(
        (n for n in ast.walk(function) if isinstance(n, ast.Assign | ast.AugAssign | ast.Return | ast.Expr)),
        key=lambda n: n.lineno,
    )
    for statement in statements:
        if statement.value is None:
            continue
        for cut in ast.walk(statement.value):
            if isinstance(cut, ast.Call) and (given := _detached_by(cut)) is not None:
                for attribute in sorted(_makers(given, made_by)):
                    yield DetachedPart(given.lineno, owner, attribute, shown_in(cut, lines))
        if isinstance(statement, ast.Assign):
            makers = _makers(statement.value, made_by)
            for target in statement.targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        made_by[name.id] = makers


def _detached_by(node: ast.AST) -> ast.expr | None:
    """What a call of ``detach`` is given; None for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(value=given, attr="detach")):
            return given
        case _:
            return None


def _makers(value: ast.AST, made_by: dict[str, set[str]]) -> set[str]:
    """Attributes of the module that are called for a value, but for what is detached in it."""
    if _detached_by(value) is not None:
        return set()
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=attribute)):
            own = {attribute}
        case ast.Name(id=name):
            own = made_by.get(name, set())
        case _:
            own = set[str]()
    return own.union(*(_makers(child, made_by) for child in ast.iter_child_nodes(value)))
