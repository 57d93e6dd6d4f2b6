"""What the dumps of all ranks say together: whose calls there are, and whether the run had stopped when they were written."""

from collections.abc import Mapping
from typing import Any

_ALIKE = ("all_reduce", "broadcast", "reduce", "all_gather_into_tensor", "reduce_scatter_tensor")
"""Calls in which all ranks must give equally many elements."""


class CallRecord:
    """The calls of one dump after the other; little is kept of each, as there may be hundreds of dumps."""

    def __init__(self) -> None:
        self.ranks: set[int] = set()
        self._kinds: dict[tuple[str, int], tuple[Any, ...]] = {}
        self._differ = False
        self._latest_ns = 0
        self._first_deadline_ns: int | None = None
        self._timed_out = False

    def add(self, row: Mapping[str, Any], *, latest_ns: int, retired: bool, matched: bool) -> None:
        """A call. ``latest_ns``: when its dump was last heard of; ``retired``: given up; ``matched``: all ranks must make it."""
        if matched:
            kind = row["op"], row["dtype"], row["numel"] if row["op"] in _ALIKE else None
            self._differ |= self._kinds.setdefault((row["group"], row["number"]), kind) != kind
        self._latest_ns = max(self._latest_ns, latest_ns)
        if row["state"] not in {"scheduled", "started"}:
            return
        self._timed_out |= retired
        if row["timeout_ns"] and row["time_ns"]:
            deadline = row["time_ns"] + row["timeout_ns"]
            self._first_deadline_ns = min(deadline, self._first_deadline_ns or deadline)

    @property
    def hung(self) -> bool:
        """Whether the run could not go on: its ranks made different calls at one number, or one ran out of time."""
        overdue = self._first_deadline_ns is not None and self._latest_ns >= self._first_deadline_ns
        return self._differ or self._timed_out or overdue
