"""Whether calls on one thread overlap without one lying inside the other, told while events pass by in the order of the file.

Sorting a million events for this question would take as long as reading them, and the profiler writes those of a thread in order.
"""

import polars as pl
import pyarrow as pa

HOST = ("cpu_op", "python_function", "user_annotation", "cuda_runtime", "cuda_driver")
"""Categories of calls on the host: each lies wholly inside another or outside of it."""

SLACK_NS = 2000
"""Clocks of host and device, and rounding to whole nanoseconds, may disagree by so much."""

_LONG_AGO = -(1 << 62)


class Nesting:
    """Looks at one piece after the other. ``ordered`` turns False, and nothing more is known, at the first event that begins
    before another of its thread that stands ahead of it."""

    def __init__(self) -> None:
        self.ordered = True
        self.overlapping = 0
        self.first: int | None = None
        """event_id of the first that overlaps."""
        self._before: dict[tuple[object, ...], tuple[int, int, int]] = {}
        """(pid, tid) → of the last event so far: begin and length, and the latest end of all, in ns."""

    def look(self, rows: pa.Table) -> None:
        """The next events: columns ph, cat, pid, tid, ts_ns, dur_ns and event_id are used."""
        if not self.ordered:
            return
        columns = ["ph", "cat", "pid", "tid", "ts_ns", "dur_ns", "event_id"]
        calls = pl.DataFrame(pl.from_arrow(rows.select(columns))).filter(
            pl.col("ph") == "X", pl.col("cat").is_in(HOST), pl.col("dur_ns") >= 0, pl.col("ts_ns").is_not_null()
        )
        for thread, events in calls.partition_by("pid", "tid", as_dict=True).items():
            self._look(thread, events["ts_ns"], events["dur_ns"], events["event_id"])

    def _look(self, thread: tuple[object, ...], begin: pl.Series, length: pl.Series, event_id: pl.Series) -> None:
        last_begin, last_length, latest = self._before.get(thread, (_LONG_AGO, 0, _LONG_AGO))
        before, before_length = begin.shift(1, fill_value=last_begin), length.shift(1, fill_value=last_length)
        end = begin + length
        until = end.cum_max().shift(1, fill_value=latest).clip(lower_bound=latest)
        if ((begin < before) | ((begin == before) & (length > before_length))).any():
            self.ordered = False
            return
        found = event_id.filter((begin < until - SLACK_NS) & (end > until + SLACK_NS))
        self.overlapping += len(found)
        if len(found) and (self.first is None or found[0] < self.first):
            self.first = int(found[0])
        self._before[thread] = int(begin[-1]), int(length[-1]), max(int(until[-1]), int(end[-1]))
