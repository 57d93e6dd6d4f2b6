"""How names, numbers, times and sizes are put into words, the same on the page and in the terminal.

Null is "not measured" everywhere, never 0.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from ...analyzer import Change
from ...analyzer.language import language
from ...analyzer.rules.texts import title_of
from ...analyzer.visible import visible, visible_lines
from .language import say

NOT_MEASURED = "not measured"
ROOT = "(root)"


def show_name(name: str | None, empty: str = ROOT) -> str:
    """A name as one visible line: control and direction characters become escapes, so none can hide or break it."""
    if not name:
        return empty
    return visible(name)


def show_text(text: str) -> str:
    """A longer text of several lines: as ``show_name``, but its line ends stay."""
    return visible_lines(text)


def spoken(name: str) -> str:
    """A fault name as words: ``zero-lr`` becomes ``zero learning rate``; in other languages the title of its rule."""
    return title_of(name) or " ".join(_SPELLED_OUT.get(word, word) for word in name.split("-"))


_SPELLED_OUT = {"lr": "learning rate", "nonfinite": "non-finite", "relu": "ReLU", "oom": "out of memory"}


def sentence_case(text: str) -> str:
    """The first letter in upper case, the rest as it is."""
    return text[:1].upper() + text[1:]


_LONGEST = 1e7
"""From here on a number that is not whole is written with a power of ten."""


def number(value: Any, digits: int = 4) -> str:
    """A number for a person: four significant digits, whole numbers whole, a power of ten only from ten million on or for
    what is very small, NaN and infinities by name."""
    if value is None:
        return say(NOT_MEASURED)
    if isinstance(value, bool):
        return say("yes") if value else say("no")
    if isinstance(value, Decimal):  # DuckDB's sums of integers
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, int):
        return (
            f"{value:,}".replace(",", "\u202f").replace("-", "−")
            if abs(value) >= 10_000
            else str(value).replace("-", "−")
        )
    if not isinstance(value, float):
        return show_name(str(value), empty="")
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "−Inf"
    if 10**digits <= abs(value) < _LONGEST:
        return number(round(value), digits)
    return f"{value:.{digits}g}".replace("-", "−")


def size(count: float | None) -> str:
    """Bytes in decimal units; ``not measured`` for None."""
    if count is None:
        return say(NOT_MEASURED)
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.4g} TB"


def duration(nanoseconds: float | None) -> str:
    """A time span with the unit that fits; ``not measured`` for None."""
    if nanoseconds is None:
        return say(NOT_MEASURED)
    seconds = nanoseconds / 1e9
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return say("{minutes} min {seconds} s", minutes=minutes, seconds=rest)
    return say("{hours} h {minutes} min", hours=minutes // 60, minutes=minutes % 60)


def moment(time_ns: int | None) -> str:
    """A wall-clock time in UTC; ``not measured`` for None."""
    if time_ns is None:
        return say(NOT_MEASURED)
    return datetime.fromtimestamp(time_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def shape(value: Sequence[int] | None) -> str:
    """A tensor shape as ``12 × 64 × 96`` with spaces that do not break; a scalar is ``scalar``."""
    if value is None:
        return say(NOT_MEASURED)
    return "\u202f×\u202f".join(str(v) for v in value) or say("scalar")


def plural(count: int, one: str, many: str | None = None) -> str:
    """``1 step``, ``2 steps``; in Chinese with the measure word that belongs to the noun."""
    if language() != "en":
        return say(f"{{count}} {one}", count=number(count))
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def change_in_words(change: Change) -> str:
    """A threshold that firstfault.toml changed, or a rule that it switched off."""
    if not change.parameter:
        return say("{rule} is switched off ({file})", rule=change.rule, file=change.file)
    return say(
        "{rule}: {parameter} is {value} instead of {default} ({file})",
        rule=change.rule,
        parameter=change.parameter,
        value=change.value,
        default=change.default,
        file=change.file,
    )
