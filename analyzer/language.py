"""The language of what people read: English as it stands in rules and code, others from the TOML files of ``words/``.

    words/zh.toml             of a room: its sentences, English = Chinese, the same {placeholders} in both
    words/zh/<layer>.toml     texts of the rules of one layer, a table for each code
    words/zh/shared/*.toml    for columns that many rules have: patterns of the words in them

English is the key, so that a text without a translation is still a text; a test names those. Identifiers, JSON keys, codes and
names of rules are the same in every language.
"""

import hashlib
import re
import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

import msgspec
from msgspec.structs import replace

from .errors import RuleError

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

_spoken: ContextVar[Language] = ContextVar("language", default="en")


Columns = dict[str, dict[str, str]]
"""Column -> patterns of words in it -> what stands for them."""


class RuleText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of a rule in one language. ``english``: the fingerprint of what was translated. ``values``: for each column of
    its rows that holds words, patterns of these words and what stands for them; a part in {braces} is taken over, {n} and
    {m} are numbers."""

    title: str
    english: str
    message: str
    fix: str
    what: str
    why: str
    not_this: str
    source: str
    values: Columns = {}


def language() -> Language:
    """The language in force."""
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
    """The sentences of one room. Called with an English sentence, gives it in the language in force, ``{names}`` filled in."""

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


@cache
def rule_texts(chosen: Language) -> dict[str, RuleText]:
    """The rules' texts by code; empty for English, which stands in the rules themselves. Raises RuleError naming the file."""
    found: dict[str, RuleText] = {}
    if chosen == "en":
        return found
    folder = files("firstfault.analyzer") / "words" / chosen
    shared = _shared(chosen)
    for file in sorted((f for f in folder.iterdir() if f.is_file()), key=lambda f: f.name):
        try:
            texts = msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), dict[str, RuleText])
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as e:
            raise RuleError(f"{file.name}: texts are not as they should be: {e}") from e
        found |= {code: replace(text, values=shared | text.values) for code, text in texts.items()}
    return found


@cache
def _shared(chosen: Language) -> Columns:
    """Patterns for columns that many rules have, and for sentences that the recorder has written into a run."""
    if chosen == "en":
        return {}
    folder = files("firstfault.analyzer") / "words" / chosen / "shared"
    found: Columns = {}
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        found |= tomllib.loads(file.read_text(encoding="utf-8"))
    return found


def in_words(column: str, sentence: str) -> str:
    """A sentence that stands in a run folder (an event, a note, a problem) in the language in force, as far as it is known."""
    return close_up(_reworded(sentence, column, _shared(_spoken.get())))


def text_of(code: str, name: str) -> RuleText | None:
    """The texts of a rule in the language in force; None in English, and for a rule that is not ours."""
    text = rule_texts(_spoken.get()).get(code)
    return text if text is not None and _name_of(code) == name else None


def title_of(name: str) -> str | None:
    """What a rule is called in the language in force, by its name; None where the name itself is what it is called."""
    code = _codes().get(name)
    text = rule_texts(_spoken.get()).get(code) if code is not None else None
    return None if text is None else text.title


def worded(text: RuleText, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with those of its values that are words put into the language of the text."""
    return {
        column: _reworded(value, column, text.values) if isinstance(value, str) else value
        for column, value in row.items()
    }


def fingerprint(*texts: str) -> str:
    """Eight digits that change when any word of the texts does: whoever changes a rule's English sees that its other
    languages have to be read again."""
    plain = "\0".join(" ".join(text.split()) for text in texts)
    return hashlib.sha256(plain.encode()).hexdigest()[:8]


def close_up(text: str) -> str:
    """A Chinese text without spaces between two of its characters, as they come about round a value that is words."""
    return text if _spoken.get() == "en" else _GAP.sub("", text)


_GAP = re.compile(r"(?<=[\u3001-\u303f\u4e00-\u9fff\uff01-\uff65]) +(?=[\u3001-\u303f\u4e00-\u9fff\uff01-\uff65])")


def _reworded(value: str, column: str, columns: Columns, *, whole: bool = True) -> str:
    """The value with each part that a pattern of the column fits said by the pattern's other side. What a placeholder takes
    over is said in turn: by the column that is called as it, else by the same patterns, without those that fit anything."""
    patterns = tuple((p, w) for p, w in columns.get(column, {}).items() if whole or not _ANYTHING.fullmatch(p))
    if not patterns or not value:
        return value

    def said(match: re.Match[str]) -> str:
        i = next(n for n in range(len(patterns)) if match[f"p{n}"] is not None)
        held: dict[str, str] = {}
        for key, part in match.groupdict().items():
            group, _, name = key.partition("_")
            if group == f"p{i}" and name:
                inner = name if name in columns else column
                held[name] = _reworded(part, inner, columns, whole=inner != column)
        return patterns[i][1].format_map(held)

    return _any_of(tuple(p for p, _ in patterns)).sub(said, value)


_NUMBERS = ("n", "m")
"""Placeholders that are numbers."""

_TEXT, _NUMBER = ".+", r"(?:[-+.,e\d]|inf|nan)+"

_ANYTHING = re.compile(r"\{[a-z]+\}")


@cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for all patterns, earlier ones first: each is a group, and each of its placeholders a group in it. A full
    stop at the end is the end of a sentence, not one inside a name."""
    parts: list[str] = []
    for i, pattern in enumerate(patterns):
        pieces = re.split(r"\{([a-z]+)\}", pattern)
        last = len(pieces) - 1
        taken = [
            re.escape(piece)
            if j % 2 == 0
            else f"(?P<p{i}_{piece}>{_NUMBER if piece in _NUMBERS else _TEXT}{'' if j == last - 1 and not pieces[last] else '?'})"
            for j, piece in enumerate(pieces)
        ]
        end = r"(?=\s|$)" if pattern.endswith(".") else ""
        parts.append(f"(?P<p{i}>{''.join(taken)}{end})")
    return re.compile("|".join(parts), re.DOTALL)


@cache
def _codes() -> dict[str, str]:
    from .rules import load_rules  # noqa: PLC0415 # rules ask for texts, and texts for the rules' names

    return {r.header.name: r.header.code for r in load_rules()}


def _name_of(code: str) -> str | None:
    return next((n for n, c in _codes().items() if c == code), None)
