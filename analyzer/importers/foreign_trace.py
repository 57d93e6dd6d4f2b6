"""Trace files of any other layout: every event through Python, a few thousand at a time."""

from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .byte_streams import ByteStream
from .event_columns import EVENTS, row_of, rows_table
from .json_stream import JsonTrace
from .kineto import StepSpans, base_of
from .nesting import Nesting

_FEW = 4000


class ForeignTrace:
    """One trace file in the array form, in compact JSON or by another producer; the same attributes as KinetoTrace.

    A moment counts from `baseTimeNanoseconds` only where that stands before the events.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.spans = StepSpans()
        self.nesting = Nesting()
        self.events = self.unparsed = self.torn_bytes = 0
        self.cut = False
        self.broken_at: int | None = None
        with ByteStream(path) as stream:
            trace = JsonTrace(stream)
            next(iter(trace), None)
            self.is_trace, self.header = trace.is_trace, trace.header

    def find_steps(self) -> None:
        """Look for the annotations that say when each step began, ahead of the events."""
        with ByteStream(self.path) as stream:
            trace = JsonTrace(stream)
            for event in trace:
                name = event.get("name") if isinstance(event, dict) else None
                if isinstance(name, str) and name.startswith("ProfilerStep#") and name[13:].isdigit():
                    row = row_of(event, base_of(self.header))
                    start, length = row.get("ts_ns"), row.get("dur_ns")
                    if start is not None and length is not None and row.get("cat") != "gpu_user_annotation":
                        self.spans.add(int(name[13:]), start, start + length)
            self.header, self.cut, self.broken_at = self.header | trace.header, trace.cut, trace.broken_at

    def write(self, out: Path, *, rank: int, window: int) -> None:
        """All events, in their order, as one Parquet part."""
        base = base_of(self.header)
        with ByteStream(self.path) as stream, pq.ParquetWriter(out, EVENTS.schema, compression="zstd") as writer:
            events = iter(JsonTrace(stream))
            while some := list(islice(events, _FEW)):
                first = self.events
                self.events += len(some)
                rows = rows_table(
                    {**row_of(event, base), "rank": rank, "window_id": window, "event_id": first + n}
                    for n, event in enumerate(some)
                )
                steps: pa.Array = self.spans.steps_at(rows.column("ts_ns"))
                at = rows.schema.get_field_index("step")
                self.nesting.look(rows)
                writer.write_table(rows.set_column(at, rows.schema.field(at), steps))
