"""Trace files as torch.profiler writes them, fast and in flat memory.

Kineto puts `\\n  },\\n  {` between two events, and no JSON string can hold a line break: the file can be cut there into pieces
of many events, whose keys are found all at a time. Nothing is lost unseen: an event that is out of the ordinary is read by
itself, by a slower way that keeps every key.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .byte_streams import ByteStream
from .event_arrays import event_arrays
from .event_columns import EVENTS, UNPARSED, row_of, rows_table
from .event_tokens import MARKS, EventTokens, OddEventsError, event_starts
from .nesting import Nesting
from .run_texts import RunTexts

PIECE = 6_000_000
"""Bytes that are read at a time: with larger pieces the processor's caches no longer hold what is read again and again, with
smaller ones the calls cost more than the work."""

ROW_GROUP = 50_000
"""Rows that are written at a time: each of the columns costs something whenever it is written."""


_KEPT_FREE = 31 << 20
"""glibc gives back what is freed at the end of its memory if it is more than twice the largest block that was ever freed, up to
32 MB: one block, never touched, spares the arrays of each piece fresh memory, which is slow to touch."""

_BETWEEN = b"\n  },\n  {"
_OPENING = re.compile(rb'"traceEvents": \[\s*\n  \{\n    "ph": "')
_HEAD = 1 << 22
_FEW = 4000
"""Events that become Python objects at a time."""

_MOST_KINDS = 12
"""Where more than so many things are wrong with the events of a piece, all of them are read one by one."""

_TEXTS = [c.name for c in EVENTS.columns if pa.types.is_string(c.type)]
_ENCODED = pa.schema(
    [f.with_type(pa.dictionary(pa.int32(), pa.string())) if f.name in _TEXTS else f for f in EVENTS.schema],
    metadata=EVENTS.schema.metadata,
)
"""The declared columns; texts, of which a trace has few different ones, are written from a dictionary."""

_SEAM = 2000
"""Bytes that an annotation of a step does not exceed."""

_ANNOTATION = b'"name": "ProfilerStep#'
_STEP = re.compile(
    rb'"name": "ProfilerStep#(\d+)",\s*"pid": [^\n]*\n\s*"tid": [^\n]*\n\s*"ts": ([\d.]+),\s*"dur": ([\d.]+)'
)


def opening_of(head: bytes) -> int | None:
    """Where the first event begins in the head of a file that has this layout; None where it has another one."""
    found = _OPENING.search(head)
    return None if found is None else head.index(b"\n  {", found.start()) + 3


class StepSpans:
    """When each step of the trace began and ended."""

    def __init__(self) -> None:
        self.spans: dict[int, tuple[int, int]] = {}

    def add(self, step: int, start_ns: int, end_ns: int) -> None:
        """A span of this step; several threads may have one."""
        known = self.spans.get(step)
        self.spans[step] = (start_ns, end_ns) if known is None else (min(known[0], start_ns), max(known[1], end_ns))

    def steps_at(self, times: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Step during which each of these moments lies; null outside all of them."""
        if not self.spans:
            return pa.nulls(len(times), pa.int64())
        ordered = sorted((span, step) for step, span in self.spans.items())
        starts, ends, steps = (
            np.array(all_of, np.int64) for all_of in zip(*((*s, n) for s, n in ordered), strict=True)
        )
        moments = times.fill_null(-(2**62)).to_numpy()
        index = np.searchsorted(starts, moments, side="right") - 1
        inside = (index >= 0) & (moments < ends[index])
        return pa.array(steps[index], mask=~inside)


def base_of(header: dict[str, Any]) -> int:
    """Moment in ns since 1970 from which `ts` counts."""
    base = header.get("baseTimeNanoseconds")
    return base if isinstance(base, int) and not isinstance(base, bool) and 0 <= base < 2**62 else 0


class KinetoTrace:
    """One trace file of this layout. ``write`` puts its events into a Parquet part; afterwards ``header``, ``spans``, ``events``
    and ``cut`` say what was found, ``unparsed`` how many events are no JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.spans = StepSpans()
        self._texts = RunTexts(inside=False), RunTexts(inside=True)
        self.nesting = Nesting()
        self.events = self.unparsed = self.one_by_one = 0
        self.cut = False
        self.torn_bytes = 0
        with ByteStream(path) as stream:
            head = stream.read(_HEAD)
            self.packed = stream.packed
        self._opening = opening_of(head)
        if self._opening is not None:
            self.header = _object(head[: head.index(b'"traceEvents"')].rstrip().rstrip(b",") + b"}") or {}

    @property
    def is_kineto(self) -> bool:
        """Whether the file has this layout."""
        return self._opening is not None

    def find_steps(self) -> None:
        """Look for the annotations that say when each step began, ahead of the events."""
        base = base_of(self.header)
        with ByteStream(self.path) as stream:
            text = bytearray(_SEAM + (1 << 20))  # the end of the piece before stands ahead of each piece
            while count := stream.fill(memoryview(text)[_SEAM:]):
                at = text.find(_ANNOTATION, 0, _SEAM + count)
                while at >= 0:
                    found = _STEP.match(text, at, _SEAM + count)
                    if found:
                        start = base + round(float(found[2]) * 1000)
                        self.spans.add(int(found[1]), start, start + round(float(found[3]) * 1000))
                    at = text.find(_ANNOTATION, at + 1, _SEAM + count)
                text[:_SEAM] = text[count : _SEAM + count]

    def write(self, out: Path, *, rank: int, window: int) -> None:
        """All events, in their order, as one Parquet part."""
        numbers = [c.name for c in EVENTS.columns if not pa.types.is_string(c.type)]
        np.empty(_KEPT_FREE, np.uint8)
        with pq.ParquetWriter(
            out,
            _ENCODED,
            compression="zstd",
            use_dictionary=_TEXTS,  # pyright: ignore[reportArgumentType] # a list of columns is taken too
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
            write_statistics=numbers,  # pyright: ignore[reportArgumentType] # as above
            store_schema=False,  # or readers would be told to make dictionaries of the texts
        ) as writer:
            writer.add_key_value_metadata(EVENTS.schema.metadata)
            for found in self._groups():
                rows = self._placed(found, rank, window)
                self.nesting.look(rows)
                writer.write_table(rows)
                self.events += rows.num_rows

    def _groups(self) -> Iterator[pa.Table]:
        """The rows of as many pieces as fill a row group."""
        tables: list[pa.Table] = []
        for piece in self._pieces():
            tables.append(self._rows(piece))
            if sum(table.num_rows for table in tables) >= ROW_GROUP:
                yield _joined(tables)
                tables = []
        if tables:
            yield _joined(tables)

    # -- pieces -------------------------------------------------------------------------------------------------------------

    def _pieces(self) -> Iterator[memoryview]:
        """Whole events, several megabytes at a time, with the commas between them. A piece lasts until the next is read."""
        with ByteStream(self.path) as stream:
            stream.read(self._opening or 0)
            buffer, held = bytearray(PIECE), 0  # one for all pieces: fresh memory is slow to touch
            while count := stream.fill(memoryview(buffer)[held:]):
                held += count
                last = buffer.rfind(_BETWEEN, 0, held)
                if last < 0:
                    buffer = buffer if held < len(buffer) else buffer + bytes(len(buffer))
                    continue
                yield memoryview(buffer)[: last + 4]
                rest = buffer[last + 6 : held]
                held = len(rest)
                buffer[:held] = rest
        yield from self._last(bytes(buffer[:held]))

    def _last(self, rest: bytes) -> Iterator[memoryview]:
        """The piece at the end: up to the closing bracket, or, in a file that was cut, up to the last event that is whole."""
        end = rest.rfind(b"\n  ]")
        if end >= 0 and (trailer := _object(b'{"x": 0' + rest[end + 4 :].rstrip())) is not None:
            self.header |= {key: value for key, value in trailer.items() if key != "x"}
            whole = rest[:end].rstrip()
        else:
            self.cut = True
            stripped = rest.rstrip().rstrip(b",").rstrip()
            whole = stripped if stripped.endswith(b"\n  }") and _is_json(stripped) else b""
            self.torn_bytes = len(rest) - len(whole)
            if end >= 0 and not whole:  # the events are whole, only what comes after them is not
                whole = rest[:end].rstrip()
                self.torn_bytes = len(rest) - end
        if whole.strip():
            yield memoryview(whole)

    # -- rows ---------------------------------------------------------------------------------------------------------------

    def _rows(self, text: bytes | memoryview, kinds: int = _MOST_KINDS) -> pa.Table:
        """One row per event: all at a time, but for events that are out of the ordinary; so many kinds of these are told."""
        try:
            tokens = EventTokens(text)
            return _table(event_arrays(tokens, base_of(self.header), *self._texts), tokens.count)
        except OddEventsError as e:
            starts = event_starts(text)
            odd = e.events if kinds else range(len(starts))
        ends = [*starts[1:].tolist(), len(text)]
        taken = set(odd)
        others = [event for event in range(len(starts)) if event not in taken]
        tables = [self._one_by_one([bytes(text[starts[event] : ends[event]]) for event in odd])]
        if others:
            rest = b"".join(text[starts[event] : ends[event]] for event in others)
            tables.append(self._rows(rest, kinds - 1))
        order = np.argsort(np.array([*odd, *others]))
        return _joined(tables).take(pa.array(order))

    def _one_by_one(self, texts: list[bytes]) -> pa.Table:
        """The rows by Python, every key kept; what is no JSON is kept as text. A little at a time: Python's objects are large."""
        self.one_by_one += len(texts)
        base = base_of(self.header)
        tables = [
            rows_table(row_of(self._one(text.strip(MARKS)), base) for text in texts[first : first + _FEW])
            for first in range(0, len(texts), _FEW)
        ]
        return pa.concat_tables(tables).cast(_ENCODED)

    def _one(self, text: bytes) -> Any:
        event = _object(text)
        if event is None:
            self.unparsed += 1
            return {"args": {UNPARSED: text.decode("utf-8", "replace")}}
        return event

    def _placed(self, rows: pa.Table, rank: int, window: int) -> pa.Table:
        """The rows with all declared columns, and with rank, window, position and step."""
        count = rows.num_rows
        given: dict[str, Any] = {
            "rank": pa.repeat(pa.scalar(rank, pa.int32()), count),
            "window_id": pa.repeat(pa.scalar(window, pa.int32()), count),
            "event_id": pa.array(np.arange(self.events, self.events + count)),
            "step": self.spans.steps_at(rows.column("ts_ns")),
        }
        columns = [given.get(c.name, rows.column(c.name)) for c in EVENTS.columns]
        return pa.Table.from_arrays(columns, schema=_ENCODED)


def _table(arrays: dict[str, pa.Array], count: int) -> pa.Table:
    """Columns as the Parquet part has them; those that no event has are null."""
    columns = [arrays[f.name].cast(f.type) if f.name in arrays else pa.nulls(count, f.type) for f in _ENCODED]
    return pa.Table.from_arrays(columns, schema=_ENCODED)


def _joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries()


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_json(text: bytes) -> bool:
    try:
        json.loads(b"[" + text + b"]")
    except (ValueError, RecursionError):
        return False
    return True
