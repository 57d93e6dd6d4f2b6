"""What a reader of one kind of text log is, and the pairs of names and numbers that most of them are made of."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from ..records import Record

NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|NaN|NAN|inf|Inf|INF|Infinity)"
"""A number as logs print it, thousands separated by commas among them."""

MOMENT = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)")
_AMOUNT = re.compile(NUMBER)


class LineParser(Protocol):
    """Takes the lines of one rank in their order."""

    def take(self, line: str) -> Iterable[Record]:
        """The records that this line completes."""
        ...

    def end(self) -> Iterable[Record]:
        """The records that only the end of the log completes."""
        ...


class EachLine:
    """A parser of lines that stand for themselves."""

    def __init__(self, record_of: Callable[[str], Record | None]) -> None:
        self._record_of = record_of

    def take(self, line: str) -> Iterator[Record]:
        """The record of this line, if it is one."""
        found = self._record_of(line)
        if found:
            yield found

    def end(self) -> Iterable[Record]:
        """Nothing."""
        return ()


class LogFormat(NamedTuple):
    """One kind of text log."""

    name: str
    line: re.Pattern[str]
    """What a line with numbers looks like."""
    parser: Callable[[], LineParser]
    left_out: str
    """What it would not take, said to whoever imports."""


def number(text: str) -> float | None:
    """The number that a text is, without the commas between thousands; None if it is none."""
    plain = text.replace(",", "")
    try:
        return float(plain)
    except ValueError:
        return None


def leading_number(text: str) -> float | None:
    """The number that a text begins with, such as 2.5 of `2.5ms`; None if it begins with none."""
    found = _AMOUNT.match(text.strip())
    return number(found[0]) if found else None


def time_in(line: str) -> dict[str, str]:
    """The moment that a line names, as a column of its record."""
    found = MOMENT.search(line)
    return {"time": f"{found[1]}-{found[2]}-{found[3]}T{found[4].replace(',', '.')}"} if found else {}


def pairs(text: str, pattern: re.Pattern[str]) -> Record:
    """Names and numbers by a pattern with one group for each; a name that comes twice keeps its first number."""
    found: Record = {}
    for name, value in pattern.findall(text):
        amount = number(value)
        if amount is not None and name.strip():
            found.setdefault(name.strip(), amount)
    return found


def whole(value: float) -> int:
    """A count that was printed as a number; 0 where it is none."""
    return int(value) if math.isfinite(value) else 0
