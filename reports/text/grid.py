"""A small table of ready words."""

from dataclasses import dataclass
from typing import Any

from .wording import number, shape, show_name

WHERE = ("phase", "rank", "microbatch", "seq")
"""Columns of evidence that say no more than the finding itself does."""


_A_NAME = 40  # characters; a longer text is a sentence


@dataclass(frozen=True, slots=True)
class Grid:
    """A small table of ready words; ``numeric`` marks columns to set flush right, ``marked`` the row to point out."""

    columns: list[str]
    rows: list[list[str]]
    numeric: list[bool]
    marked: int | None = None


def grid_of(rows: list[dict[str, Any]]) -> Grid | None:
    """Rows as words; columns as they first appear, those that only say where at the end, those never measured left out.

    None where nothing is left.
    """
    measured = dict.fromkeys(key for row in rows for key, value in row.items() if value not in (None, ""))
    columns = sorted(measured, key=lambda column: column in WHERE)
    if not columns:
        return None
    numeric = [
        all(isinstance(r.get(c), int | float | None) and not isinstance(r.get(c), bool) for r in rows)
        and any(r.get(c) is not None for r in rows)
        for c in columns
    ]
    return Grid(
        [show_name(column_name(c)) for c in columns], [[_cell(row.get(c)) for c in columns] for row in rows], numeric
    )


def column_name(column: str) -> str:
    """As a reader knows it: SQL puts a line behind words of its own."""
    return column.rstrip("_") or column


def _cell(value: Any) -> str:
    if isinstance(value, list | tuple) and all(isinstance(v, int) for v in value):
        return shape(value)
    if isinstance(value, str):
        return show_name(value, empty='""')
    return number(value, digits=6)
