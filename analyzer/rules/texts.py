"""The texts of the rules in another language than English: ``words/<language>/<layer>.toml``."""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from ..errors import RuleError
from ..language import Language, language, say
from ..word_patterns import Columns, reworded, shared_patterns
from .filling import fill
from .rule import Header, load_rules


class RuleText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of a rule in one language. ``english``: the fingerprint of what was translated. ``say``: the words for each
    reason, as in the header. ``values``: for each column of its rows that holds words of a view, patterns of these words and
    what stands for them; a part in {braces} is taken over, {n} and {m} are numbers."""

    title: str
    english: str
    message: str
    fix: str
    what: str
    why: str
    not_this: str
    source: str
    say: dict[str, dict[str, str]] = {}
    values: Columns = {}


@cache
def rule_texts(chosen: Language) -> dict[str, RuleText]:
    """The rules' texts by code; empty for English, which stands in the rules themselves. Raises RuleError naming the file."""
    found: dict[str, RuleText] = {}
    if chosen == "en":
        return found
    folder = files("firstfault.analyzer") / "words" / chosen
    shared = shared_patterns(chosen)
    for file in sorted((f for f in folder.iterdir() if f.is_file()), key=lambda f: f.name):
        try:
            texts = msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), dict[str, RuleText])
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as e:
            raise RuleError(f"{file.name}: texts are not as they should be: {e}") from e
        found |= {code: replace(text, values=shared | text.values) for code, text in texts.items()}
    return found


def text_of(code: str, name: str) -> RuleText | None:
    """The texts of a rule in the current language; None in English, and for a rule that is not ours."""
    text = rule_texts(language()).get(code)
    return text if text is not None and header_of(code, name) is not None else None


def title_of(name: str) -> str | None:
    """What a rule is called in the current language, by its name; None where the name itself is what it is called."""
    code = _codes().get(name)
    text = rule_texts(language()).get(code) if code is not None else None
    return None if text is None else text.title


def in_words_of(header: Header, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its reasons and words said in the current language. In the place of a reason may stand a list of rows that
    hold it: each is said by its own values, one after another. Raises RuleError for a reason without words."""
    text = text_of(header.code, header.name)
    told = dict(row) if text is None else worded(text, row)
    for column, words in (header.say if text is None else text.say).items():
        reason = row.get(column)
        if isinstance(reason, list):
            parts = cast("list[dict[str, Any]]", reason)
            told[column] = say("; ").join(in_words_of(header, part)[column] for part in parts)
        elif reason is None:
            told[column] = ""
        elif reason in words:
            told[column] = fill(words[reason], told)
        else:
            raise RuleError(f"{header.code}: {column} has no words for {reason!r}")
    return told


def values_of(code: str, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a finding without its reasons, which the message has said; its words are in the current language."""
    header, text = header_of(code, name), text_of(code, name)
    told = dict(row) if text is None else worded(text, row)
    return told if header is None else {column: value for column, value in told.items() if column not in header.say}


def fixes_of(said: Header | RuleText) -> list[str]:
    """The fix of a rule, or the fixes that its reasons choose from, in the words of the header or of a translation. What a row
    alone can say, such as the remedy of a known exception, is left out."""
    whole = " ".join(said.fix.split())
    chosen = _ONE_COLUMN.fullmatch(whole)
    words = said.say.get(chosen[1]) if chosen else None
    if chosen is None or words is None:
        return [whole]
    return [f"{text.strip()}{chosen[2]}" for text in dict.fromkeys(words.values()) if not _ONE_COLUMN.fullmatch(text)]


_ONE_COLUMN = re.compile(r"\{(\w+)\}([.。]?)")


def worded(text: RuleText, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with those of its values that are words of a view put into the language of the text."""
    return {
        column: reworded(value, column, text.values) if isinstance(value, str) and column not in text.say else value
        for column, value in row.items()
    }


def header_of(code: str, name: str) -> Header | None:
    """The header of a rule of ours."""
    header = _headers().get(code)
    return header if header is not None and header.name == name else None


def fingerprint(*texts: str) -> str:
    """Eight digits that change when any word of the texts does: whoever changes a rule's English sees that its other
    languages have to be read again."""
    plain = "\0".join(" ".join(text.split()) for text in texts)
    return hashlib.sha256(plain.encode()).hexdigest()[:8]


@cache
def _codes() -> dict[str, str]:
    return {r.header.name: r.header.code for r in load_rules()}


@cache
def _headers() -> dict[str, Header]:
    return {r.header.code: r.header for r in load_rules()}
