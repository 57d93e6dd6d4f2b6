"""Rows of tensor_stats of one step, until they are written."""

from typing import Any

import pyarrow as pa

from ...schemas import TABLES
from ...schemas.files.step_values import Row
from ..tensors.device import wait_for
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

    __slots__ = ("_cells", "_late")

    def __init__(self) -> None:
        self._cells: list[Any] = []
        self._late: dict[int, Any] = {}
        """Place of a row → its moments, which have not arrived."""

    def __len__(self) -> int:
        return len(self._cells) // _WIDTH

    def add(
        self, microbatch: int, seq: int, phase: int, tensor_id: int, m: Moments, missing: bool, grad: bool | None
    ) -> None:
        """One row at the end."""
        if type(m) is Moments:
            self._cells += (microbatch, seq, phase, tensor_id, *m, missing, grad)
        else:  # still on its way from a device
            self._late[len(self)] = m
            self._cells += (microbatch, seq, phase, tensor_id, *NOT_MEASURED, missing, grad)

    def move(self, place: int, phase: int) -> None:
        """A row turns out to belong to another phase."""
        if place < len(self):
            self._cells[place * _WIDTH + _PHASE] = phase

    def put(self, place: int, m: Moments) -> None:
        """Other moments for a row."""
        if place >= len(self):
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
        columns = [[rank] * count, [step] * count, *(self._cells[i::_WIDTH] for i in range(_WIDTH))]
        return pa.RecordBatch.from_arrays(list(map(pa.array, columns, _SCHEMA.types)), schema=_SCHEMA)

    def rows(self) -> list[Row]:
        """The same, each by its columns."""
        cells = self._cells
        return [dict(zip(_COLUMNS, cells[i : i + _WIDTH], strict=True)) for i in range(0, len(cells), _WIDTH)]
