"""Python source without the secrets that stand in it: in literals, in comments, in parts of f-strings.

A literal goes by its shape, or by the name beside it: a variable, a keyword, a key, an option, a function such as `login`.
Nothing else changes, so that the code stays what it is.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise

from ...schemas.files.secrets import HIDDEN, Redactor

_LOGS_IN = {"login", "authenticate"}
"""Functions whose first argument is a secret, whatever it is called."""

_PIECES = {
    tokenize.COMMENT,
    *(getattr(tokenize, name) for name in ("FSTRING_MIDDLE", "TSTRING_MIDDLE") if hasattr(tokenize, name)),
}
_OLD_FSTRING = re.compile(r"(?i)(?:f|rf|fr)['\"]")

_Change = tuple[int, int, int, int, str]
"""Line and column of the begin and of the end, both in characters, and the text that stands there instead."""


def without_secrets(source: str) -> tuple[str, int]:
    """The source with `[secret]` in the place of each secret, and how many there were. Raises SyntaxError."""
    source = io.StringIO(source, newline=None).read()
    tree = ast.parse(source)
    named = list(_named(tree))
    # what its name gives away in one place is known in all others
    known = [f"{name}={node.value}" for name, node in named if name.isidentifier() and _looks_random(name, node)]
    redactor = Redactor(known)
    source, literals = _changed(source, _in_literals(source, tree, named, redactor))
    source, pieces = _changed(source, _in_pieces(source, redactor))
    return source, literals + pieces


def _in_literals(
    source: str, tree: ast.Module, named: list[tuple[str, ast.Constant]], redactor: Redactor
) -> Iterator[_Change]:
    lines = source.split("\n")
    names: dict[ast.Constant, list[str]] = {}
    for name, node in named:
        names.setdefault(node, []).append(name)
    inside = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str | bytes) or node in inside:
            continue
        text = _text(node)
        hidden = text
        for name in [*names.get(node, ()), ""]:
            hidden = redactor.value(hidden, name)
        if hidden == text:
            continue
        literal = repr(hidden.encode("latin-1", "replace") if isinstance(node.value, bytes) else hidden)
        last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        yield node.lineno, _column(lines, node.lineno, node.col_offset), last, _column(lines, last, end), literal


def _in_pieces(source: str, redactor: Redactor) -> Iterator[_Change]:
    """Comments and the texts of f-strings, which are no literals of their own."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _PIECES or (token.type == tokenize.STRING and _OLD_FSTRING.match(token.string)):
            hidden = redactor.text(token.string)
            if hidden != token.string:
                yield *token.start, *token.end, hidden


def _changed(source: str, changes: Iterator[_Change]) -> tuple[str, int]:
    made = sorted(changes, reverse=True)
    lines = source.split("\n")
    for first, begin, last, end, text in made:
        lines[first - 1 : last] = [lines[first - 1][:begin] + text + lines[last - 1][end:]]
    return "\n".join(lines), len(made)


def _column(lines: list[str], line: int, offset: int) -> int:
    """Characters before a place that ast tells in bytes."""
    return len(lines[line - 1].encode()[:offset].decode())


def _text(node: ast.Constant) -> str:
    return node.value.decode("latin-1") if isinstance(node.value, bytes) else str(node.value)


def _looks_random(name: str, node: ast.Constant) -> bool:
    """Whether a literal would be hidden in prose too: `secret = "hidden"` says nothing of other places with that word."""
    return isinstance(node.value, str) and HIDDEN in Redactor().text(f"{name}={node.value}")


def _named(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """(name, literal) wherever a name stands beside a literal; one literal may have several."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from _pairs([_name(target) for target in targets], value)
            case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                yield from _pairs([_name(target)], value)
            case ast.Compare(left=left, comparators=[right]):
                yield from _pairs([_name(left)], right)
                yield from _pairs([_name(right)], left)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    yield from _pairs([_name(key)], value)
            case ast.arguments():
                yield from _of_defaults(node)
            case ast.Call():
                yield from _of_a_call(node)
            case ast.List(elts=items) | ast.Tuple(elts=items):  # a command line
                for option, value in pairwise(items):
                    if (name := _name(option)).startswith("-"):
                        yield from _pairs([name], value)
            case _:
                pass


def _of_defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.Constant]]:
    given = [*arguments.posonlyargs, *arguments.args]
    defaults = [*zip(reversed(given), reversed(arguments.defaults), strict=False)]
    for argument, default in [*defaults, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]:
        yield from _pairs([argument.arg], default)


def _of_a_call(call: ast.Call) -> Iterator[tuple[str, ast.Constant]]:
    """Arguments by their keyword, by the text before them (`setdefault("API_KEY", …)`), by what is called."""
    first = [_name(arg) for arg in call.args[:1] if isinstance(arg, ast.Constant)]
    for keyword in call.keywords:
        yield from _pairs([keyword.arg or "", *(first if keyword.arg in {"default", "value"} else ())], keyword.value)
    for arg in call.args[1:]:
        yield from _pairs(first, arg)
    called = _name(call.func)
    for arg in call.args[:1]:
        yield from _pairs(["api_key" if called in _LOGS_IN else called], arg)


def _pairs(names: list[str], value: ast.expr | None) -> Iterator[tuple[str, ast.Constant]]:
    if isinstance(value, ast.Constant) and isinstance(value.value, str | bytes):
        for name in names:
            if name:
                yield name, value


def _name(node: ast.expr | None) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Constant(value=str(name)):
            return name
        case ast.Subscript(slice=key):
            return _name(key)
        case _:
            return ""
