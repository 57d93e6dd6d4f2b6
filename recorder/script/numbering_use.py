"""How a script uses the names that its data set numbers: whether samples get these numbers, and whether another place of the
script looks names up again, as to translate the numbers of one split into those of another. Read from the source.
"""

import ast
import linecache
import sys
from collections.abc import Iterator
from typing import Any

from .frames import is_users
from .source_nodes import dotted

_LARGEST = 300_000
"""Letters of a file: a parse takes half a second for each million."""

_MOST_FILES = 50
_SHOWS = frozenset({"len", "print", "sorted", "list", "set", "dict", "tuple", "str", "repr", "join", "dump", "dumps"})
"""Functions that look names up for nobody."""


def gives_numbers(cls: type, name: str, *, places: bool) -> bool:
    """Whether methods of a class look numbers up in its attribute; ``places``: in a list, where the place is the number."""
    if any(base.__name__ == "DatasetFolder" and base.__module__.startswith("torchvision.") for base in cls.__mro__):
        return True  # torchvision makes its samples of them, in a function outside the class
    for base in cls.__mro__:
        for node in _class_of(base):
            names = {name, *_kept_under(node, name)}
            if any(used in names for used in (_places_of(node) if places else _looked_up(node, passed=True))):
                return True
    return False


def looked_up_elsewhere(cls: type, name: str) -> bool:
    """Whether the script's own files look something up in such an attribute outside of the class and its bases."""
    own = {base.__name__ for base in cls.__mro__}
    files = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
    for file in sorted(file for file in files if file.endswith(".py") and is_users(file))[:_MOST_FILES]:
        tree = _parsed(file, f".{name}")
        if tree is None:
            continue
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef) and statement.name in own:
                continue
            if any(used == name for used in (*_looked_up(statement), *_places_of(statement))):
                return True
    return False


def _parsed(file: str, holding: str) -> ast.Module | None:
    text = "".join(linecache.getlines(file))
    if holding not in text or len(text) > _LARGEST:
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _class_of(cls: type) -> Iterator[ast.ClassDef]:
    """Where a class of the script is written."""
    codes = [getattr(value, "__code__", None) for value in vars(cls).values()]
    file: Any = next((code.co_filename for code in codes if code is not None), None)
    tree = _parsed(file, f"class {cls.__name__}") if isinstance(file, str) and is_users(file) else None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            yield node


def _kept_under(scope: ast.AST, name: str) -> Iterator[str]:
    """Variables that are assigned to the attribute."""
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=[*targets], value=ast.Name(id=kept)):
                if any(isinstance(target, ast.Attribute) and target.attr == name for target in targets):
                    yield kept
            case _:
                pass


def _looked_up(scope: ast.AST, *, passed: bool = False) -> Iterator[str]:
    """Last names of what is indexed or asked by ``get``, and with ``passed`` of what other functions are given."""
    for node in ast.walk(scope):
        match node:
            case ast.Subscript(value=held, ctx=ast.Load()):
                yield _last(held)
            case ast.Call(func=ast.Attribute(value=held, attr="get")):
                yield _last(held)
            case ast.Call(func=function, args=given, keywords=named) if passed and _last(function) not in _SHOWS:
                yield from map(_last, (*given, *(keyword.value for keyword in named)))
            case _:
                pass


def _places_of(scope: ast.AST) -> Iterator[str]:
    """Last names of what is asked for places: ``x.index(y)``, ``enumerate(x)``."""
    for node in ast.walk(scope):
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr="index")):
                yield _last(held)
            case ast.Call(func=ast.Name(id="enumerate"), args=[held, *_]):
                yield _last(held.args[0] if isinstance(held, ast.Call) and held.args else held)
            case _:
                pass


def _last(node: ast.AST) -> str:
    return dotted(node).rpartition(".")[2]
