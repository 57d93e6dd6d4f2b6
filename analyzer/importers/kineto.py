"""Read a trace of torch.profiler in any JSON layout, fast and in flat memory.

Pieces of many events arrive in Kineto's layout, and the keys of all of them are found at a time. An event that is out of the
ordinary is read by itself, by a slower way that keeps every key: nothing is lost unseen.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas.files.seals import SEALED
from .byte_streams import ByteStream
from .event_arrays import event_arrays
from .event_columns import EVENTS, UNPARSED, row_of, rows_table
from .event_tokens import MARKS, EventTokens, OddEventsError, event_starts
from .native_scan import ScannedEvents, TraceScanner, load_scanner
from .nesting import Nesting
from .run_texts import RunTexts
from .step_spans import StepSpans, find_steps
from .trace_pieces import Piece, TracePieces

ROW_GROUP = 50_000
"""Rows that are written at a time: each of the columns costs something whenever it is written."""


_KEPT_FREE = 31 << 20
"""glibc gives back what is freed at the end of its memory if it is more than twice the largest block that was ever freed, up to
32 MB: one block, never touched, spares the arrays of each piece fresh memory, which is slow to touch."""

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


def base_of(header: dict[str, Any]) -> int:
    """Moment in ns since 1970 from which `ts` counts."""
    base = header.get("baseTimeNanoseconds")
    return base if isinstance(base, int) and not isinstance(base, bool) and 0 <= base < 2**62 else 0


class KinetoTrace:
    """One trace file. ``write`` puts its events into a Parquet part; afterwards ``header``, ``spans``, ``events`` and ``cut`` say
    what was found, ``unparsed`` how many events are no JSON, ``one_by_one`` how many were read the slow way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spans = StepSpans()
        self.base_ns = 0
        with ByteStream(path) as stream:
            pieces = TracePieces(stream)
            pieces.read_header()
        self.header, self.is_trace = pieces.header, pieces.is_trace
        self._start()

    def _start(self) -> None:
        self._texts = RunTexts(inside=False), RunTexts(inside=True)
        self.nesting = Nesting()
        self.events = self.unparsed = self.one_by_one = self.torn_bytes = 0
        self.cut = False
        self.broken_at: int | None = None

    def find_steps(self) -> None:
        """Look for the annotations that say when each step began, and for the clock's start, ahead of the events."""
        with ByteStream(self.path) as stream:
            self.spans, base = find_steps(stream, with_base="baseTimeNanoseconds" not in self.header)
        self.base_ns = base_of(self.header if "baseTimeNanoseconds" in self.header else {"baseTimeNanoseconds": base})
        self.spans.moved(self.base_ns)

    def write(self, out: Path, *, rank: int, window: int) -> None:
        """All events, in their order, as one Parquet part."""
        self._write(out, rank, window)
        told = base_of(self.header)
        if told != self.base_ns:  # what looked like the clock's start stood in an event
            self.spans.moved(told - self.base_ns)
            self.base_ns = told
            self._start()
            self._write(out, rank, window)

    def _write(self, out: Path, rank: int, window: int) -> None:
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
            writer.add_key_value_metadata({**EVENTS.schema.metadata, **SEALED})
            for found in self._groups():
                rows = self._placed(found, rank, window)
                self.nesting.look(rows)
                writer.write_table(rows)
                self.events += rows.num_rows

    def _groups(self) -> Iterator[pa.Table]:
        """The rows of as many pieces as fill a row group."""
        tables: list[pa.Table] = []
        library = load_scanner()
        with ByteStream(self.path) as stream:
            pieces = TracePieces(stream, None if library is None else TraceScanner(library, self.base_ns))
            for piece in pieces:
                rows = self._rows_of(piece)
                if rows is None:
                    continue
                tables.append(rows)
                if sum(table.num_rows for table in tables) >= ROW_GROUP:
                    yield _joined(tables)
                    tables = []
        self.header |= pieces.header
        self.cut, self.broken_at, self.torn_bytes = pieces.cut, pieces.broken_at, pieces.torn_bytes
        if tables:
            yield _joined(tables)

    # -- rows ---------------------------------------------------------------------------------------------------------------

    def _rows_of(self, piece: Piece) -> pa.Table | None:
        """The rows of a piece; None where it is refused, as its events are no JSON by themselves or none of the format's."""
        if piece.scanned is not None:
            return self._scanned(piece.scanned, piece.events)
        if piece.text is None:
            return self._one_by_one(piece.events)
        before = self.unparsed, self.one_by_one
        rows = self._events_table(piece.text)
        if self.unparsed > before[0] or rows.column("ph").null_count:
            piece.refused = True
            self.unparsed, self.one_by_one = before
            return None
        return rows

    def _scanned(self, found: ScannedEvents, odd: list[bytes]) -> pa.Table:
        """One row per event of those that the library has read; the odd ones by themselves."""
        rows = _table(found.columns, found.count)
        return self._merged(odd, found.odd, rows.take(pa.array(_others(found.count, found.odd)))) if odd else rows

    def _merged(self, texts: list[bytes], places: Sequence[int], rest: pa.Table) -> pa.Table:
        """The rows of events that are read by themselves at these places, and of all others."""
        order = np.argsort(np.append(np.array(places, np.int64), _others(len(places) + rest.num_rows, places)))
        return _joined([self._one_by_one(texts), rest]).take(pa.array(order))

    def _events_table(self, text: bytes | memoryview, kinds: int = _MOST_KINDS) -> pa.Table:
        """One row per event: all at a time, but for events that are out of the ordinary; so many kinds of these are told."""
        try:
            tokens = EventTokens(text)
            return _table(event_arrays(tokens, self.base_ns, *self._texts), tokens.count)
        except OddEventsError as e:
            starts = event_starts(text)
            odd = e.events if kinds else range(len(starts))
        ends = [*starts[1:].tolist(), len(text)]
        texts = [bytes(text[starts[event] : ends[event]]) for event in odd]
        others = _others(len(starts), odd)
        if not len(others):
            return self._one_by_one(texts)
        rest = b"".join(text[starts[event] : ends[event]] for event in others)
        return self._merged(texts, odd, self._events_table(rest, kinds - 1))

    def _one_by_one(self, texts: list[bytes]) -> pa.Table:
        """The rows by Python, every key kept; what is no JSON is kept as text. A little at a time: Python's objects are large."""
        self.one_by_one += len(texts)
        tables = [
            rows_table(row_of(self._one(text.strip(MARKS)), self.base_ns) for text in texts[first : first + _FEW])
            for first in range(0, len(texts), _FEW)
        ]
        return pa.concat_tables(tables).cast(_ENCODED)

    def _one(self, text: bytes) -> Any:
        try:
            return json.loads(text.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            self.unparsed += 1
            return {"args": {UNPARSED: text.decode("utf-8", "replace")}}

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


def _others(count: int, places: Sequence[int]) -> npt.NDArray[np.int64]:
    """All places but these."""
    return np.delete(np.arange(count), np.array(places, np.int64))


def _joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries()
