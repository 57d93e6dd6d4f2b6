"""Rows of tensor_stats of one step, until they are written."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ...schemas import TABLES
from ...schemas.files.step_values import Row
from ..tensors.device import wait_for
from ..tensors.moment_table import MomentTable
from ..tensors.moments import NOT_MEASURED, Moments

_SCHEMA = TABLES["tensor_stats"].schema
_COLUMNS = _SCHEMA.names[2:]
"""All but rank and step, which a row gets when it is written."""

_WIDTH = len(_COLUMNS)
_PHASE = _COLUMNS.index("phase")
_MOMENTS = _COLUMNS.index(Moments._fields[0])

_FEW = 32
"""Rows that are still no batch of their own."""


class StatRows:
    """The cells of all rows, one after the other in one list.

    A tuple for each row would live until the step ends. A thousand of these wake Python's garbage collector, which then goes
    through everything that torch has loaded.
    """

    __slots__ = ("_blocks", "_cells", "_late")

    def __init__(self) -> None:
        self._cells: list[Any] = []
        self._blocks: list[tuple[int, list[Sequence[Any]]]] = []
        """Columns of rows that were added together, each block with the number of single rows before it."""
        self._late: dict[int, Any] = {}
        """Place of a row → its moments, which have not arrived."""

    def __len__(self) -> int:
        return self.singles + sum(len(columns[0]) for _, columns in self._blocks)

    @property
    def singles(self) -> int:
        """Rows that were added one by one: the place of the next one."""
        return len(self._cells) // _WIDTH

    def add(
        self, microbatch: int, seq: int, phase: int, tensor_id: int, m: Moments, missing: bool, grad: bool | None
    ) -> None:
        """One row at the end."""
        if type(m) is Moments:
            self._cells += (microbatch, seq, phase, tensor_id, *m, missing, grad)
        else:  # still on its way from a device
            self._late[self.singles] = m
            self._cells += (microbatch, seq, phase, tensor_id, *NOT_MEASURED, missing, grad)

    def add_all(
        self,
        microbatch: int,
        seq: int,
        phase: int,
        tensor_ids: Sequence[int],
        moments: MomentTable,
        grads: Sequence[bool | None],
    ) -> None:
        """A row for each of many tensors, ``seq`` on."""
        count = len(tensor_ids)
        self._blocks.append(
            (
                self.singles,
                [
                    [microbatch] * count,
                    range(seq, seq + count),
                    [phase] * count,
                    tensor_ids,
                    *moments.columns(),
                    [False] * count,
                    grads,
                ],
            )
        )

    def move(self, place: int, phase: int) -> None:
        """A row that was added by itself turns out to belong to another phase."""
        if place < self.singles:
            self._cells[place * _WIDTH + _PHASE] = phase

    def put(self, place: int, m: Moments) -> None:
        """Other moments for such a row."""
        if place >= self.singles:
            return
        if type(m) is Moments:
            start = place * _WIDTH + _MOMENTS
            self._cells[start : start + len(m)] = m
            self._late.pop(place, None)
        else:
            self._late[place] = m

    def arrived(self) -> None:
        """Take over the moments that were still on their way."""
        late, self._late = self._late, {}
        for place, m in late.items():
            self.put(place, wait_for(m))

    def batch(self, rank: int, step: int) -> pa.RecordBatch | None:
        """All rows as one batch; None where they are too few for one of their own."""
        count = len(self)
        if count <= _FEW:
            return None
        columns = [[rank] * count, [step] * count, *map(self._column, range(_WIDTH))]
        return pa.RecordBatch.from_arrays(list(map(pa.array, columns, _SCHEMA.types)), schema=_SCHEMA)

    def rows(self) -> list[Row]:
        """The same, each by its columns."""
        return [dict(zip(_COLUMNS, row, strict=True)) for row in zip(*map(self._column, range(_WIDTH)), strict=True)]

    def _column(self, i: int) -> list[Any]:
        """The values of one column, in the order of the rows."""
        values: list[Any] = []
        before = 0
        for place, columns in self._blocks:
            values += self._cells[before * _WIDTH + i : place * _WIDTH : _WIDTH]
            values += columns[i]
            before = place
        values += self._cells[before * _WIDTH + i :: _WIDTH]
        return values
