"""Trace files as torch.profiler writes them, fast and in flat memory.

Kineto puts `\\n  },\\n  {` between two events, and no JSON string can hold a line break: the file can be cut there into pieces
that DuckDB reads as arrays with known columns. Nothing is lost unseen: a piece has as many keys as its text has `":`, or it is
read again by a slower way that keeps every key. A key that turns up so is known in the pieces after it.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..views import quote
from .byte_streams import ByteStream
from .event_columns import EVENTS, NUMBERS, OUTER, TEXTS, UNPARSED, row_of, rows_table
from .nesting import Nesting

PIECE = 12_000_000
"""Bytes that are read at a time: larger pieces gain little and cost memory."""

MEMORY = "160MB"
"""What DuckDB may hold."""

_BETWEEN = b"\n  },\n  {"
_OPENING = re.compile(rb'"traceEvents": \[\s*\n  \{\n    "ph": "')
_HEAD = 1 << 22
_USUAL = ("finished", "name", "labels", "sort_index", "Op count")
_KEY = re.compile(rb'"([^"\\\n]{1,80})":')
_FEW = 4000
"""Events that become Python objects at a time."""

_MOST_KEYS = 80
_OF_EVENTS = {*OUTER, "ts", "dur", "args"} - {"name"}
_PLAIN = re.compile(r"[A-Za-z0-9_.()/%-][A-Za-z0-9_.()/%: -]*")

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
        starts = pl.Series([s[0][0] for s in ordered], dtype=pl.Int64)
        ends = pl.Series([s[0][1] for s in ordered], dtype=pl.Int64)
        steps = pl.Series([s[1] for s in ordered], dtype=pl.Int64)
        moments = pl.Series(pl.from_arrow(times))
        index = starts.search_sorted(moments.fill_null(-(2**62)), side="right").cast(pl.Int64) - 1
        inside = (index >= 0) & (moments < ends.gather(index.clip(0)))
        frame = pl.select(pl.when(inside).then(steps.gather(index.clip(0))).otherwise(None).alias("step"))
        return frame["step"].to_arrow()


def base_of(header: dict[str, Any]) -> int:
    """Moment in ns since 1970 from which `ts` counts."""
    base = header.get("baseTimeNanoseconds")
    return base if isinstance(base, int) and not isinstance(base, bool) and 0 <= base < 2**62 else 0


class Piece:
    """Text that is not copied together before it must be: what was left of the read before, and most of this one. It lasts until
    the next is read."""

    def __init__(self, rest: bytes, text: bytes | bytearray, length: int) -> None:
        self._rest, self._text, self._length = rest, text, length

    @property
    def parts(self) -> tuple[bytes, memoryview]:
        """What it consists of."""
        return self._rest, memoryview(self._text)[: self._length]

    def whole(self) -> bytes:
        """All of it."""
        return b"".join(self.parts)

    def count(self, words: bytes) -> int:
        """How often these bytes stand in it."""
        seam = self._rest[1 - len(words) :] + self._text[: min(len(words) - 1, self._length)]
        return self._rest.count(words) + self._text.count(words, 0, self._length) + seam.count(words)

    def keys(self) -> int:
        """How often `":` stands in it: once for each key. Twice as fast as ``count``, which looks byte by byte."""
        seam = self._rest[-1:] + self._text[: min(1, self._length)]
        return self._rest.count(b'":') + seam.count(b'":') + sum(self._pairs(first, b'":') for first in (0, 1))

    def _pairs(self, first: int, pair: bytes) -> int:
        """How often two bytes stand at every second place."""
        length = max(self._length - first, 0) // 2
        if not length:
            return 0
        text = pa.py_buffer(memoryview(self._text)[first : first + 2 * length])
        pairs = pa.Array.from_buffers(pa.uint16(), length, [None, text])
        wanted = pa.scalar(int.from_bytes(pair, sys.byteorder), pa.uint16())
        return pc.call_function("sum", [pc.call_function("equal", [pairs, wanted])]).as_py()


class KinetoTrace:
    """One trace file of this layout. ``write`` puts its events into a Parquet part; afterwards ``header``, ``spans``, ``events``
    and ``cut`` say what was found, ``unparsed`` how many events are no JSON."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.spans = StepSpans()
        self.nesting = Nesting()
        self.events = self.unparsed = self.slow_pieces = 0
        self.cut = False
        self.torn_bytes = 0
        with ByteStream(path) as stream:
            head = stream.read(_HEAD)
            self.packed = stream.packed
        self._opening = opening_of(head)
        if self._opening is not None:
            self.header = _object(head[: head.index(b'"traceEvents"')].rstrip().rstrip(b",") + b"}") or {}
        self._inside = {key: key for key in (*NUMBERS, *TEXTS, *_USUAL) if key != "bytes"}
        """Keys of `args` that are looked for → their names in the query, where capitals do not tell names apart."""
        self._columns = self._made()
        """Column → expressions of the keys that it is made of."""

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

    def write(self, out: Path, folder: Path, *, rank: int, window: int) -> None:
        """All events, in their order, as one Parquet part; ``folder`` is for what does not fit into memory."""
        texts = [c.name for c in EVENTS.columns if pa.types.is_string(c.type)]
        numbers = [c.name for c in EVENTS.columns if not pa.types.is_string(c.type)]
        with (
            duckdb.connect(config={"threads": 1, "memory_limit": MEMORY, "temp_directory": str(folder)}) as con,
            # memory that DuckDB can open as a file, used again for each piece
            open(os.memfd_create("piece"), "r+b", buffering=0) as scratch,  # noqa: PTH123 # it has no path
            pq.ParquetWriter(
                out,
                EVENTS.schema,
                compression="zstd",
                use_dictionary=texts,  # pyright: ignore[reportArgumentType] # a list of columns is taken too
                column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
                write_statistics=numbers,  # pyright: ignore[reportArgumentType] # as above
            ) as writer,
        ):
            con.execute("SET enable_progress_bar = false")
            con.execute("SET enable_external_file_cache = false")  # each piece is read once, under the same name
            for piece in self._pieces():
                rows = self._fast(con, piece, scratch)
                if rows is None and self._learn(piece):
                    rows = self._fast(con, piece, scratch)
                if rows is None:
                    self.slow_pieces += 1
                    rows = self._slow(piece)
                placed = self._placed(rows, rank, window)
                self.nesting.look(placed)
                writer.write_table(placed)
                self.events += rows.num_rows

    # -- pieces -------------------------------------------------------------------------------------------------------------

    def _pieces(self) -> Iterator[Piece]:
        """Whole events, several megabytes at a time, with the commas between them."""
        with ByteStream(self.path) as stream:
            stream.read(self._opening or 0)
            rest = b""
            buffer = bytearray(PIECE)  # one for all pieces: fresh memory is slow to touch
            while count := stream.fill(buffer):
                last = buffer.rfind(_BETWEEN, 0, count)
                if last < 0:
                    rest += buffer[:count]
                    continue
                yield Piece(rest, buffer, last + 4)
                rest = bytes(buffer[last + 6 : count])
        yield from self._last(rest)

    def _last(self, rest: bytes) -> Iterator[Piece]:
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
            yield Piece(b"", whole, len(whole))

    # -- two ways of reading a piece -------------------------------------------------------------------------------------------

    def _fast(self, con: duckdb.DuckDBPyConnection, piece: Piece, scratch: IO[bytes]) -> pa.Table | None:
        """The rows by DuckDB; None where that would lose something."""
        parts: tuple[bytes | memoryview, ...] = piece.parts
        for key, name in self._inside.items():
            if key != name:  # a quote inside a string has a backslash before it: this finds keys only
                parts = (b"".join(parts).replace(f'"{key}":'.encode(), f'"{name}":'.encode()),)
        scratch.seek(0)
        scratch.writelines((b"[", *parts, b"]"))
        scratch.truncate()
        try:
            rows = con.sql(self._query(f"/proc/self/fd/{scratch.fileno()}")).to_arrow_table()
        except duckdb.Error:
            return None
        filled = {name: rows.num_rows - rows.column(name).null_count for name in rows.column_names}
        for column, keys in self._columns.items():
            if len(keys) > 1 and filled[column] != sum(filled[f"key:{key}"] for key in keys):
                return None  # one event has both
        several = self._several()
        counted = sum(n for name, n in filled.items() if name not in several and name != "args_json")
        missing = piece.keys() - counted
        if missing and (missing != piece.count(b'": null') or self._learn(piece)):
            return None
        return rows.select([name for name in rows.column_names if not name.startswith("key:")])

    def _several(self) -> set[str]:
        """Columns that are made of more than one key, which are counted key by key."""
        return {column for column, keys in self._columns.items() if len(keys) > 1}

    def _made(self) -> dict[str, list[str]]:
        """Column → expressions of the keys that it is made of."""
        made: dict[str, list[str]] = {}
        for key, column in OUTER.items():
            made.setdefault(column, []).append(_name(key))
        for key, column in {**NUMBERS, **TEXTS}.items():
            if key in self._inside:
                made.setdefault(column, []).append(f"args.{_name(self._inside[key])}")
        return made

    def _query(self, path: str) -> str:
        inside = {name: "BIGINT" if key in NUMBERS else "JSON" for key, name in self._inside.items()}
        args = ", ".join(f"{_name(k)} {t}" for k, t in inside.items())
        columns = {**dict.fromkeys(OUTER, "VARCHAR"), "ts": "DOUBLE", "dur": "DOUBLE", "args": f"STRUCT({args})"}
        declared = ", ".join(f"{quote(k)}: {quote(t)}" for k, t in columns.items())
        made = {c: f"coalesce({', '.join(keys)})" if len(keys) > 1 else keys[0] for c, keys in self._columns.items()}
        made |= {c: f"{made[c]}::VARCHAR" for c in TEXTS.values()}
        made |= {"ts_ns": f"{base_of(self.header)} + round(ts * 1000)::BIGINT", "dur_ns": "round(dur * 1000)::BIGINT"}
        others = {key: f"args.{_name(name)}" for key, name in self._inside.items() if key not in NUMBERS | TEXTS}
        if others:
            parts = ", ".join(f"{quote(json.dumps(key) + ':')} || {value}::VARCHAR" for key, value in others.items())
            made["args_json"] = (
                f"CASE WHEN coalesce({', '.join(others.values())}) IS NOT NULL THEN '{{' || concat_ws(',', {parts}) || '}}' END"
            )
        keys = [key for keys in self._columns.values() if len(keys) > 1 for key in keys] + ["args", *others.values()]
        made |= {f"key:{key}": f"{key} IS NOT NULL OR NULL" for key in keys}
        wanted = ", ".join(f"{value} AS {_name(column)}" for column, value in made.items())
        return (
            f"SELECT {wanted} FROM read_json({quote(path)}, format='array', columns={{{declared}}},"  # noqa: S608 # quoted
            " maximum_object_size=4194304)"
        )

    def _slow(self, piece: Piece) -> pa.Table:
        """The rows by Python, every key kept; what is no JSON is kept as text. A little at a time: Python's objects are large."""
        tables: list[pa.Table] = []
        texts = piece.whole().strip()[1:-1].split(_BETWEEN)
        for first in range(0, len(texts), _FEW):
            some = texts[first : first + _FEW]
            try:
                events = msgspec.json.decode(b"[{" + b"},{".join(some) + b"}]")
            except msgspec.DecodeError:
                events = [self._one(b"{" + text + b"}") for text in some]
            tables.append(rows_table(row_of(event, base_of(self.header)) for event in events))
        return pa.concat_tables(tables)

    def _one(self, text: bytes) -> Any:
        event = _object(text)
        if event is None:
            self.unparsed += 1
            return {"args": {UNPARSED: text.decode("utf-8", "replace")}}
        return event

    def _learn(self, piece: Piece) -> bool:
        """Look for keys that are new, to be known from here on; whether there are any."""
        before = len(self._inside)
        for raw in sorted(set(_KEY.findall(piece.whole()))):
            key = raw.decode("utf-8", "replace")
            if (
                key not in self._inside
                and key not in _OF_EVENTS
                and len(self._inside) < _MOST_KEYS
                and _PLAIN.fullmatch(key)
            ):
                taken = {name.lower() for name in self._inside.values()}
                self._inside[key] = key if key.lower() not in taken else f"{key}~{len(self._inside)}"
        self._columns = self._made()
        return len(self._inside) > before

    def _placed(self, rows: pa.Table, rank: int, window: int) -> pa.Table:
        """The rows with all declared columns, and with rank, window, position and step."""
        count = rows.num_rows
        given: dict[str, Any] = {
            "rank": pa.repeat(pa.scalar(rank, pa.int32()), count),
            "window_id": pa.repeat(pa.scalar(window, pa.int32()), count),
            "event_id": pl.int_range(self.events, self.events + count, dtype=pl.Int64, eager=True).to_arrow(),
            "step": self.spans.steps_at(rows.column("ts_ns")),
        }
        present = set(rows.column_names)
        columns = [
            given[c.name] if c.name in given else rows.column(c.name) if c.name in present else pa.nulls(count, c.type)
            for c in EVENTS.columns
        ]
        return pa.Table.from_arrays(
            [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, EVENTS.schema, strict=True)],
            schema=EVENTS.schema,
        )


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


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
