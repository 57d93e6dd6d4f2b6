"""Arguments that a script gives to a class of its own, and that nothing there reads: ``Encoder(dropout=0.3)``, and no
line of Encoder says dropout. Read in the source of one file."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from .source_nodes import shown_in

_WORDS = (
    r"(?:dropout|drop|p_drop|bias|norm|activation|residual|pretrained|freeze|frozen|weights?|reduction|ignore_index|padding_idx|"
    r"pad_idx|smoothing|margin|temperature|temp|alpha|beta|gamma|lam|lambda|tau|lr|rate|decay|momentum|warmup|clip|augment|"
    r"transform|shuffle|mask|lengths|normalize|normalise|scale|bidirectional|negatives|patience|delta|eps|sigma|noise)"
)
"""Words of what a training depends on."""

_SETTINGS = re.compile(rf"(?:^|_){_WORDS}(?:$|_)", re.IGNORECASE)
_TAKEN = re.compile(rf"def \w+\([^)]*[ _,(]{_WORDS}[ _,:=)]", re.IGNORECASE)

_SILENT = re.compile(r"^_|verbose|debug|log|print|name|path|dir|device|file|unused|dummy|version|kwargs", re.IGNORECASE)
_DYNAMIC = frozenset(
    {"locals", "vars", "eval", "exec", "globals", "getattr", "setattr", "save_hyperparameters", "__dict__"}
)
"""Ways to read what no name shows."""

_OPTIONS = frozenset({"args", "opt", "opts", "cfg", "config", "conf", "hparams", "params", "flags", "FLAGS"})
"""What holds the settings of a command, and no object that keeps one."""

_STUB = (ast.Pass, ast.Raise)


class IgnoredArgument(NamedTuple):
    """An argument of a call that what is called does not read."""

    line: int
    """Of the call."""
    function: str
    """Class that it is given to."""
    text: str
    name: str
    value: str
    kept_as: str
    """Attribute that it is put into and that nothing reads; empty where the name itself is not read."""
    defined: int


def may_ignore(text: str) -> bool:
    """Whether a text is worth a parse: something that it defines takes a setting."""
    return _TAKEN.search(text) is not None


def ignored_arguments(tree: ast.Module, source: str) -> Iterator[IgnoredArgument]:
    """The first call of each argument that is ignored."""
    makers = dict(_makers(tree)) if may_ignore(source) else {}
    if not makers:
        return
    lines = source.split("\n")
    told = set[tuple[str, str]]()
    ignored: dict[str, dict[str, str]] = {}
    read = _attributes_read(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in makers:
            continue
        called = node.func.id
        maker = makers[called]
        if called not in ignored:
            ignored[called] = _ignored(maker, read)
        for name, value in _given(node, maker):
            unread = ignored[called].get(name)
            if unread is not None and (called, name) not in told and _says_something(name, value, maker):
                told.add((called, name))
                yield IgnoredArgument(
                    node.lineno, called, shown_in(node, lines), name, shown_in(value, lines), unread, maker.lineno
                )


def _makers(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """(class, its ``__init__``) of what a file defines at its top once."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    seen = Counter(node.name for node in classes)
    for node in classes:
        functions = [f for f in node.body if isinstance(f, ast.FunctionDef)]
        makers = [f for f in functions if f.name == "__init__"]
        if seen[node.name] == len(makers) == 1 and not any(f.name == "__new__" for f in functions):
            yield node.name, makers[0]


def _attributes_read(tree: ast.Module) -> set[str] | None:
    """Attributes that any line of the file reads; None where some may be read by ways that show no name."""
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=held, attr=name, ctx=ast.Load()):
                if not isinstance(held, ast.Name) or held.id not in _OPTIONS:
                    found.add(name)
                if name == "__dict__":
                    return None
            case ast.Name(id=name) if name in {"vars", "getattr", "asdict"}:
                return None
            case ast.AugAssign(target=ast.Attribute(attr=name)):
                found.add(name)
            case ast.Constant(value=str(name)) if name.isidentifier():
                found.add(name)
            case _:
                pass
    return found


def _ignored(maker: ast.FunctionDef, attributes: set[str] | None) -> dict[str, str]:
    """Arguments that nothing reads, with the attribute that keeps each."""
    body = [n for n in maker.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    names = [n for part in body for n in ast.walk(part) if isinstance(n, ast.Name | ast.Attribute)]
    words = {n.id if isinstance(n, ast.Name) else n.attr for n in names}
    if not body or isinstance(body[0], _STUB) or words & _DYNAMIC:
        return {}
    kept: dict[str, str] = {}
    for part in body:
        for node in ast.walk(part):
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)], value=ast.Name(id=name)
                ) if attributes is not None and attribute not in attributes:
                    kept[name] = attribute
                case _:
                    pass
    found: dict[str, str] = {}
    for argument in (*_by_place(maker), *(a.arg for a in maker.args.kwonlyargs)):
        reads = sum(isinstance(n, ast.Name) and n.id == argument for n in names)
        if reads == 0:
            found[argument] = ""
        elif reads == 1 and argument in kept:
            found[argument] = f"self.{kept[argument]}"
    return found


def _by_place(maker: ast.FunctionDef) -> list[str]:
    return [a.arg for a in [*maker.args.posonlyargs, *maker.args.args]][1:]


def _given(call: ast.Call, maker: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return
    yield from zip(_by_place(maker), call.args, strict=False)
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value


def _says_something(name: str, value: ast.expr, maker: ast.FunctionDef) -> bool:
    """Whether a setting is given, and another value than none at all or than its default."""
    if not _SETTINGS.search(name) or _SILENT.search(name):
        return False
    if isinstance(value, ast.Constant) and (value.value is None or value.value is False or value.value == 0):
        return False
    given = maker.args
    named = [a.arg for a in [*given.posonlyargs, *given.args]]
    defaults = dict(zip(named[::-1], given.defaults[::-1], strict=False))
    defaults |= {a.arg: d for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None}
    default = defaults.get(name)
    return default is None or ast.dump(default) != ast.dump(value)
