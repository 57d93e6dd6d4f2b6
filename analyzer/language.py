"""The language of what people read: English as it stands in rules and code, others from the TOML files of ``words/``.

    words/zh.toml             of a room: its sentences, English = Chinese, the same {placeholders} in both
    words/zh/<layer>.toml     texts of the rules of one layer, a table for each code
    words/zh/shared/*.toml    for columns that many rules have: patterns of the words in them

English is the key, so that a text without a translation is still a text; a test names those. Identifiers, JSON keys, codes and
names of rules are the same in every language.
"""

import re
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

Language = Literal["en", "zh"]


LANGUAGES: tuple[Language, ...] = get_args(Language)


_spoken: ContextVar[Language] = ContextVar("language", default="en")


def language() -> Language:
    """The current language."""
    return _spoken.get()


def speak(chosen: Language) -> None:
    """From here on, in this process (thread), all texts are in this language."""
    _spoken.set(chosen)


@contextmanager
def speaking(chosen: Language) -> Generator[None]:
    """A language for the length of a block."""
    token = _spoken.set(chosen)
    try:
        yield
    finally:
        _spoken.reset(token)


class Sentences:
    """The sentences of one room. Called with an English sentence, gives it in the current language, ``{names}`` filled in."""

    def __init__(self, package: str) -> None:
        self.package = package

    def __call__(self, text: str, /, **values: Any) -> str:
        """The sentence. Braces inside the values are left alone; a sentence without values is not looked through for any."""
        chosen = _spoken.get()
        template = text if chosen == "en" else self.of(chosen).get(text, text)
        return template.format_map(values) if values else template

    def of(self, chosen: Language) -> dict[str, str]:
        """All that has a translation: English -> that language."""
        return _sentences(self.package, chosen)


say = Sentences("firstfault.analyzer")
"""Sentences of the analyzer that are no rule's: why a rule was not judged, what is wrong with a recording."""


@cache
def _sentences(package: str, chosen: Language) -> dict[str, str]:
    file = files(package) / "words" / f"{chosen}.toml"
    return {} if chosen == "en" else tomllib.loads(file.read_text(encoding="utf-8"))


def close_up(text: str) -> str:
    """A Chinese text without spaces between two of its characters, as they come about round a value that is words."""
    return text if _spoken.get() == "en" else _GAP.sub("", text)


_GAP = re.compile(r"(?<=[\u3001-\u303f\u4e00-\u9fff\uff01-\uff65]) +(?=[\u3001-\u303f\u4e00-\u9fff\uff01-\uff65])")
