"""Rows have types: a table or column that the schema does not know is a mistake of the recorder, and never lost in silence.

In the field such a mistake is an event `recorder-fault`. Under ``FIRSTFAULT_STRICT=1``, which the tests set, it is raised through
every guard.
"""

import os
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from ...schemas import TABLES

STRICT = os.environ.get("FIRSTFAULT_STRICT") == "1"

_COLUMNS = {name: frozenset(table.column_names) for name, table in TABLES.items()}

OF_MICROBATCHES = frozenset(name for name, columns in _COLUMNS.items() if "microbatch" in columns)
"""Tables whose rows say in which microbatch they were made."""


class RowError(Exception):
    """A row of a table that is not declared, or with columns that its table does not have."""


def check_row(table: str, columns: AbstractSet[str]) -> None:
    """Raise RowError where a table does not have these columns. Asked for every row: one comparison of sets."""
    known = _COLUMNS.get(table)
    if known is None:
        raise RowError(f"there is no table {table!r}; tables are declared in schemas")
    if not columns <= known:
        raise RowError(f"table {table} has no column {', '.join(sorted(columns - known))}")


def unknown_columns(table: str, columns: Iterable[str]) -> list[str]:
    """Of these columns, those that a declared table does not have."""
    known = _COLUMNS[table]
    return [column for column in columns if column not in known]
