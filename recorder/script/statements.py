"""Where a script's source adds to a list, a dictionary or a sum, what it calls and what it assigns: found by reading the
source, not by watching it run.

Only files that were asked for are parsed, and what was found in them is kept.
"""

import ast
import linecache
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

_TO_LISTS = frozenset({"append", "appendleft", "extend", "extendleft", "insert", "push"})
_TO_MAPPINGS = frozenset({"update", "setdefault"})
_TO_SETS = frozenset({"add", "update"})
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "vstack", "hstack", "append"})
_NUMBERS = frozenset({"item", "float", "int", "len", "tolist", "str", "time", "perf_counter"})
_LONGEST = 100


class Addition(NamedTuple):
    """One statement that makes something longer."""

    line: int
    function: str
    """Function that holds it; ``<module>`` outside all."""
    text: str
    root: str | None
    """Variable at the foot of what is added to: ``history`` in ``history['loss'].append(x)``; None where it is no name."""
    attributes: tuple[str, ...]
    """Attributes on the way: ``('buffer',)`` in ``self.buffer.append(x)``."""
    kind: str
    """list, dict, set (a container gains an element), sum (a value is replaced by a longer or larger one)."""
    numbers: bool
    """Whether what is added is plainly a number or a text, such as ``loss.item()``."""


def _tree(file: str) -> ast.Module:
    """The source as a tree; an empty one where the file cannot be read or is no Python. Not kept: it takes megabytes."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


@cache
def additions(file: str) -> tuple[Addition, ...]:
    """All of a file, in order of lines; none where the file cannot be read or is no Python."""
    lines = "".join(linecache.getlines(file)).splitlines()
    return tuple(sorted(_in(_tree(file), "<module>", lines)))


@cache
def calls(file: str) -> tuple[tuple[int, str, str], ...]:
    """(line, function that calls, name called) of all calls of a file."""
    return tuple(_calls_in(_tree(file), "<module>"))


@cache
def assigned(file: str) -> dict[tuple[str, str], str]:
    """(function, variable) → the expressions that are assigned to the variable there, one a line."""
    found: dict[tuple[str, str], str] = {}
    for function, name, value in _assigned_in(_tree(file), "<module>"):
        found[function, name] = f"{found.get((function, name), '')}{ast.unparse(value)}\n"
    return found


def _assigned_in(node: ast.AST, function: str) -> Iterator[tuple[str, str, ast.expr]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                yield function, name, value
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                yield function, name, value
            case _:
                pass
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield from _assigned_in(child, inside)


def _calls_in(node: ast.AST, function: str) -> Iterator[tuple[int, str, str]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                yield child.lineno, function, name
            case _:
                pass
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield from _calls_in(child, inside)


def _in(node: ast.AST, function: str, lines: list[str]) -> Iterator[Addition]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Lambda):
            inside = "<lambda>"
        for target, kind, added in _targets(child):
            root, attributes = _chain(target)
            if isinstance(child, ast.expr | ast.stmt) and (root is not None or attributes):
                text = lines[child.lineno - 1][child.col_offset :] if child.lineno <= len(lines) else ""
                if child.end_lineno == child.lineno:
                    text = _piece(lines[child.lineno - 1], child.col_offset, child.end_col_offset)
                text = text.strip()
                shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
                yield Addition(child.lineno, inside, shown, root, attributes, kind, _numbers(added))
        yield from _in(child, inside, lines)


def _piece(line: str, first: int, last: int | None) -> str:
    return line.encode()[first:last].decode(errors="replace")  # columns count bytes


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, str, list[ast.expr]]]:
    """(what grows, kind, what is added)."""
    match node:
        case ast.Call(func=ast.Attribute(attr=method, value=target), args=args, keywords=keywords):
            added = [*args, *(k.value for k in keywords)]
            if method in _TO_LISTS and added:
                yield target, "list", added
            if method in _TO_MAPPINGS and added:
                yield target, "dict", added[1:] if method == "setdefault" else added
            if method in _TO_SETS and added:
                yield target, "set", added
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
                    yield target.value, "dict", [value]
                if isinstance(target, ast.Name | ast.Attribute | ast.Subscript) and _grows(
                    ast.dump(_read(target)), value
                ):
                    yield target, "sum", [value]
        case ast.AugAssign(target=target, op=ast.Add(), value=value):
            yield target, "sum", [value]
            # what is added to an element is no list, as a rule, unless a list is added
            if not isinstance(target, ast.Subscript) or isinstance(value, ast.List | ast.ListComp):
                yield target, "list", [value]
        case _:
            return


def _grows(target: str, value: ast.expr) -> bool:
    """Whether a value is the old value of the target and something more: ``x + y``, ``torch.cat([x, y])``."""
    match value:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return target in (ast.dump(left), ast.dump(right)) or _grows(target, left) or _grows(target, right)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args) if name in _JOINS:
            parts = [p for a in args for p in (a.elts if isinstance(a, ast.List | ast.Tuple) else [a])]
            return target in map(ast.dump, parts)
        case _:
            return False


def _read(target: ast.expr) -> ast.expr:
    """The same expression as it looks where it is read."""
    match target:
        case ast.Name(id=name):
            return ast.Name(id=name, ctx=ast.Load())
        case ast.Attribute(value=value, attr=name):
            return ast.Attribute(value=value, attr=name, ctx=ast.Load())
        case ast.Subscript(value=value, slice=key):
            return ast.Subscript(value=value, slice=key, ctx=ast.Load())
        case _:
            return target


def _chain(target: ast.expr) -> tuple[str | None, tuple[str, ...]]:
    attributes: list[str] = []
    while True:
        match target:
            case ast.Name(id=name):
                return name, tuple(reversed(attributes))
            case ast.Attribute(value=inner, attr=name):
                attributes.append(name)
                target = inner
            case ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner)):
                target = inner
            case _:
                return None, tuple(reversed(attributes))


def _numbers(added: list[ast.expr]) -> bool:
    return bool(added) and all(_number(value) for value in added)


def _number(value: ast.expr) -> bool:
    match value:
        case ast.Constant() | ast.JoinedStr():
            return True
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _NUMBERS
        case ast.BinOp(left=left, right=right):
            return _number(left) or _number(right)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all(_number(p) for p in parts)
        case _:
            return False
