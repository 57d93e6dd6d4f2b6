"""What a column and a table are.

Everything that depends on a table's shape (Arrow schema, DuckDB view, documentation page, defaults of rule cases)
is derived from these declarations, so a column is declared once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # a tenth of a second: the parent of a recorded script must not wait for it
    import pyarrow as pa

SCHEMA_VERSION = 1
"""Version of the tables and of run.json/exit.json. History: 1 — first."""

VERSION_KEY = b"firstfault.schema_version"
"""Key under which every Arrow schema and Parquet part carries the version it was written with."""


class Phase(IntEnum):
    """Where in a step a row was captured; stored as a small integer, shown by name in views."""

    DATA = 0
    FORWARD = 1
    LOSS = 2
    BACKWARD = 3
    OPTIMIZER = 4
    EVAL = 5
    EXIT = 6


KINDS = (
    "parameter",
    "gradient",
    "update",
    "activation",
    "activation_gradient",
    "optimizer_state",
    "buffer",
    "input",
    "target",
    "output",
    "loss",
)
"""Values of ``tensors.kind``."""


Kind = Literal["int8", "int32", "int64", "double", "bool", "string", "list<int64>", "list<double>"]


@cache
def arrow_type(kind: Kind) -> "pa.DataType":
    """The type that Arrow has for a kind of values."""
    import pyarrow as pa  # noqa: PLC0415 - see above

    if kind.startswith("list<"):
        return pa.list_(pa.type_for_alias(kind.removeprefix("list<").removesuffix(">")))
    return pa.type_for_alias(kind)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what kind of values it has, one sentence and a unit (empty where a value has none)."""

    name: str
    kind: Kind
    doc: str
    unit: str = ""

    @property
    def type(self) -> "pa.DataType":
        """Its Arrow type."""
        return arrow_type(self.kind)


@dataclass(frozen=True, slots=True)
class Table:
    """One table. ``key`` names the columns that identify a row; ``latest`` says that a later row replaces an earlier one."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    latest: bool = False

    @property
    def schema(self) -> "pa.Schema":
        """Arrow schema of the files, with the version in its metadata."""
        import pyarrow as pa  # noqa: PLC0415 - see above

        fields = [pa.field(c.name, c.type) for c in self.columns]
        return pa.schema(fields, metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()})

    @property
    def column_names(self) -> Sequence[str]:
        """Names in declared order."""
        return [c.name for c in self.columns]
