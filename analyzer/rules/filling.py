"""How a sentence of a rule shows the values of a row."""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from string import Formatter
from typing import Any, cast

from ..errors import RuleError
from ..language import close_up, say


def fill(template: str, row: Mapping[str, Any]) -> str:
    """The sentence with the row's values. A value's own braces are not looked at again.

    `{value}` shows four digits, `{value:.3g}` what Python's format says, `{value:bytes}` bytes in decimal units, and
    `{names:names}` the texts of a list one after another. A blank at its ends stays: it may be a part of another sentence.
    Raises RuleError for a column that the row lacks, and for a value that has no such format.
    """
    try:
        return close_up(_SENTENCE.vformat(_BLANKS.sub(" ", template), (), row))
    except (KeyError, TypeError, ValueError) as e:
        raise RuleError(f"{template!r} cannot be said of this row: {e}") from e


class _Sentence(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return say("not recorded")
        if format_spec == "bytes":
            return _bytes(float(value))
        if format_spec == "names":
            return ", ".join(str(v) for v in value)
        if format_spec:
            return format(float(value) if isinstance(value, Decimal) else value, format_spec)
        return shown(value)


_SENTENCE = _Sentence()
_BLANKS = re.compile(r"\s+")


def shown(value: Any) -> str:
    """A value as a sentence shows it."""
    if value is None:
        return say("not recorded")
    if isinstance(value, float):
        return format(value, ".0f" if 1e4 <= abs(value) < 1e6 else ".4g")
    if isinstance(value, list):
        return "[" + ", ".join(shown(v) for v in cast("list[Any]", value)) + "]"
    return str(value)


def _bytes(n: float) -> str:
    """A number of bytes as people say it."""
    if not math.isfinite(n):
        return str(n)
    for least, digits, unit in ((1e9, 2, "GB"), (1e6, 1, "MB"), (1e3, 1, "kB")):
        if n >= least:
            return f"{round(n / least, digits)} {unit}"
    return say("{n} bytes", n=round(n))
