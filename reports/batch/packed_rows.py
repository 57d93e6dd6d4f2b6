"""Rows of the index beyond those that the page draws itself: packed into one text, which the page's script unfolds.

A row drawn as HTML takes a kilobyte and a half, most of it its curve; ten thousand of them keep a browser busy for seconds.
"""

import base64
import gzip
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from .index import IndexRow

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
"""A height of a packed curve is one of these, the lowest first: a third of a pixel of the drawing."""

LOST = "."
"""Where the loss was not finite."""


def packed_rows(rows: Sequence["IndexRow"], verdict_words: dict[str, str]) -> str:
    """Base64 of gzip of JSON: digits of curves, words of verdicts, and a list for each row. The same rows give the same text."""
    said: dict[str, Any] = {"digits": DIGITS, "verdicts": verdict_words, "rows": [_packed(row) for row in rows]}
    return base64.b64encode(gzip.compress(msgspec.json.encode(said), mtime=0)).decode()


def packed_curve(curve: Sequence[float | None]) -> str:
    """A digit for each value: its height between the least and the greatest."""
    known = [v for v in curve if v is not None]
    if not known:
        return LOST * len(curve)
    low, high = min(known), max(known)
    top = len(DIGITS) - 1

    def digit(value: float) -> str:
        return DIGITS[top // 2 if high == low else round((value - low) / (high - low) * top)]

    return "".join(LOST if v is None else digit(v) for v in curve)


def _packed(row: "IndexRow") -> list[Any]:
    return [
        row.name,
        row.href,
        row.verdict,
        row.causes,
        row.fault,
        int(row.light),
        row.note,
        [c.words for c in row.cells],
        [c.value for c in row.cells],
        [i for i, c in enumerate(row.cells) if c.lost],
        packed_curve(row.curve),
    ]
