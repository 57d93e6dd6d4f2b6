"""The arguments of a command, read by its own declaration and without typer, which takes an eighth of a second to load.

Only what is plain is read: options with a value of their own, flags, the script and its arguments. All else is for typer, which
also says what is wrong.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, NamedTuple, get_args, get_origin


class _Names(NamedTuple):
    """What a declaration says beside the type: the names of an option."""

    names: tuple[str, ...]
    positional: bool


def _option(*names: str, **_: Any) -> _Names:
    return _Names(names, positional=False)


def _argument(*names: str, **_: Any) -> _Names:
    return _Names(names, positional=True)


_TYPER = SimpleNamespace(Option=_option, Argument=_argument)
"""Stands for the module where annotations are read."""


class _Parameter(NamedTuple):
    name: str
    type: Any
    """str, Path, bool, or list for strings that may be given several times."""


def plain_arguments(command: Callable[..., Any], words: Sequence[str]) -> dict[str, Any] | None:
    """What a command is to be called with. Its first parameter is the script, its second takes all words behind the script.

    None where a word is not plain: an unknown option, one without its value, `--help`, `--`. The command's annotations are
    texts (``from __future__ import annotations``).
    """
    options, (script, rest) = _declared(command)
    given: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            return {**given, script: word, rest: left}
        name, equals, value = word.partition("=")
        parameter = options.get(name)
        if parameter is None or (parameter.type is bool and equals):
            return None
        if parameter.type is bool:
            given[parameter.name] = True
            continue
        if not equals:
            if not left or left[0].startswith("-"):
                return None
            value = left.pop(0)
        if parameter.type is list:
            given.setdefault(parameter.name, []).append(value)
        else:
            given[parameter.name] = parameter.type(value)
    return None


def _declared(command: Callable[..., Any]) -> tuple[dict[str, _Parameter], list[str]]:
    """(name of an option → its parameter, names of the parameters that are no options)."""
    options: dict[str, _Parameter] = {}
    positional: list[str] = []
    known = {**command.__globals__, "typer": _TYPER}
    for name, text in command.__annotations__.items():
        match get_args(eval(text, known)):  # noqa: S307 - our own source
            case (_, _Names(positional=True)):
                positional.append(name)
            case (kind, _Names(names=names)):
                for written in names or (f"--{name.replace('_', '-')}",):
                    options[written] = _Parameter(name, _plain_type(kind))
            case _:  # what it returns
                pass
    return options, positional


def _plain_type(kind: Any) -> Any:
    """``Path`` of ``Path | None``, ``list`` of ``list[str] | None``."""
    if isinstance(kind, UnionType):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    found = get_origin(kind) or kind
    return found if found in (bool, list, Path) else str
