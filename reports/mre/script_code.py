"""The part of a training script that a class in it needs: imports, classes, functions and constants, as they stand there.

Nothing of the script is run: running it would train. What would have to be run for its value, such as parsed arguments, is
named instead.
"""

import ast
import builtins
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

_SAFE_CALLS = {
    "torch", "nn", "F", "math", "functools", "collections", "typing", "partial", "namedtuple", "TypeVar", "NewType", "range",
    "len", "int", "float", "bool", "str", "tuple", "list", "dict", "set", "frozenset", "min", "max", "sum", "abs", "round",
}  # fmt: skip
"""What the value of a constant may call: it neither trains nor reads the command line."""


@dataclass(frozen=True, slots=True)
class ScriptCode:
    """``text``: what was taken; ``future``: its imports from __future__, which go on top; ``missing``: roots that are not there;
    ``values``: names whose value only a run would tell, each with its line."""

    text: str
    future: str
    missing: list[str]
    values: list[str]


def code_for(source: str, roots: Iterable[str]) -> ScriptCode:
    """What of ``source`` the classes and functions of ``roots`` (qualified names) need. Raises SyntaxError."""
    tree = ast.parse(source)
    lines = source.splitlines()
    values: dict[str, str] = {}
    missing: list[str] = []
    wanted: list[str] = []
    inner: list[ast.stmt] = []
    top = {name for node in tree.body for name in _bound(node)}
    for root in dict.fromkeys(roots):
        path = root.replace(".<locals>", "").split(".")
        node = _inside(tree.body, path) if "<locals>" in root else None
        if node is not None:
            inner.append(node)
            wanted += _loaded(node)
            values |= _of_outer(tree.body, path, node, lines)
        elif "<locals>" not in root and path[0] in top:
            wanted.append(path[0])
        else:
            missing.append(root)
    taken = _needed(tree.body, wanted, lines, values)
    future = [n for n in tree.body if _is_future(n)]
    chosen = [n for n in tree.body if not _is_future(n) and (n in taken or _is_star(n))]
    text = "\n".join(_text(n, lines) for n in [*chosen, *inner]).strip("\n")
    return ScriptCode(text, "\n".join(_text(n, lines) for n in future), missing, list(values.values()))


def _needed(body: list[ast.stmt], wanted: list[str], lines: list[str], values: dict[str, str]) -> set[ast.stmt]:
    """Statements that give the wanted names their values, and the names that these want. What only a run could tell is put
    into ``values``."""
    taken: set[ast.stmt] = set()
    waiting, seen = list(wanted), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for node in body:
            if name not in _bound(node) or node in taken:
                continue
            if _is_safe(node):
                taken.add(node)
                waiting += _loaded(node)
            elif not hasattr(builtins, name):
                values[name] = f"{name}, line {node.lineno}: {lines[node.lineno - 1].strip()}"
    return taken


def _bound(node: ast.stmt) -> list[str]:
    """Names that a statement gives a value to."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Import() | ast.ImportFrom():
            return [(a.asname or a.name).split(".")[0] for a in node.names]
        case _:
            names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
            nested = [
                n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)
            ]
            return names + [name for n in nested for name in _bound(n)]


def _loaded(node: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_star(node: ast.stmt) -> bool:
    """What a star brings nobody knows."""
    return isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names)


def _is_safe(node: ast.stmt) -> bool:
    """Whether a statement can stand in another script without doing any of the training."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Import():
            return True
        case ast.ImportFrom():
            return node.level == 0  # a relative import has no package here
        case ast.Assign() | ast.AnnAssign():
            return node.value is not None and _is_plain(node.value)
        case ast.Try():
            return all(
                isinstance(n, ast.Pass) or _is_safe(n)
                for n in [*node.body, *(s for h in node.handlers for s in h.body)]
            )
        case ast.If():
            return _is_plain(node.test) and all(
                isinstance(n, ast.Pass) or _is_safe(n) for n in [*node.body, *node.orelse]
            )
        case _:
            return False


def _is_plain(value: ast.expr) -> bool:
    """Whether an expression calls nothing but what makes numbers, types and containers."""
    for node in ast.walk(value):
        if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return False
        if isinstance(node, ast.Call):
            called = node.func
            while isinstance(called, ast.Attribute):
                called = called.value
            if not isinstance(called, ast.Name) or called.id not in _SAFE_CALLS:
                return False
    return True


def _inside(body: list[ast.stmt], path: list[str]) -> ast.stmt | None:
    """The class or function that a path of names leads to, through functions and classes."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == path[0]:
            return node if len(path) == 1 else _inside(node.body, path[1:])
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For):
            found = _inside(node.body, path)
            if found is not None:
                return found
    return None


def _of_outer(body: list[ast.stmt], path: list[str], node: ast.stmt, lines: list[str]) -> dict[str, str]:
    """Variables of the functions round a class that the class uses, as lines to be put in by hand."""
    used = set(_loaded(node)) - {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    used -= {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
    found: dict[str, str] = {}
    for depth in range(1, len(path)):
        outer = _inside(body, path[:depth])
        if not isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for argument in outer.args.args + outer.args.kwonlyargs:
            if argument.arg in used:
                found[argument.arg] = f"{argument.arg}, an argument of {outer.name}"
        for statement in outer.body:
            if statement is not node:
                for name in used.intersection(_bound(statement)):
                    found[name] = f"{name}, line {statement.lineno}: {lines[statement.lineno - 1].strip()}"
    return found


def _text(node: ast.stmt, lines: list[str]) -> str:
    """The lines of a statement, with its decorators, as they stand."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    text = textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno]))
    return f"\n\n{text}\n" if isinstance(node, ast.FunctionDef | ast.ClassDef) else text
