"""Sentences that stand in a run or in rows of a rule, said in another language by patterns of ``words/``."""

import re
import tomllib
from functools import cache
from importlib.resources import files

from .language import Language, close_up, language

Columns = dict[str, dict[str, str]]
"""Column -> patterns of words in it -> what stands for them."""


@cache
def shared_patterns(chosen: Language) -> Columns:
    """Patterns for columns that many rules have, and for sentences that the recorder has written into a run."""
    if chosen == "en":
        return {}
    folder = files("firstfault.analyzer") / "words" / chosen / "shared"
    found: Columns = {}
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        found |= tomllib.loads(file.read_text(encoding="utf-8"))
    return found


def in_words(column: str, sentence: str) -> str:
    """A sentence that stands in a run folder (an event, a note, a problem) in the current language, as far as it is known."""
    return close_up(reworded(sentence, column, shared_patterns(language())))


def reworded(value: str, column: str, columns: Columns, *, whole: bool = True) -> str:
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
                held[name] = reworded(part, inner, columns, whole=inner != column)
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
