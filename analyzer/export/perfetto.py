"""The timeline of a run as a Chrome trace, for Perfetto and chrome://tracing: steps, phases, curves, memory, collectives, events,
findings, and the profiler's own events where there are some.

Laid out as Kineto lays out its files, so that `firstfault import` reads it in its fast way. Times of phases are sums over
the step in the tables: their bars are laid end to end and show how long, not when.
"""

import gzip
import json
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from ..diagnosis.diagnose import diagnose
from ..errors import ImportFileError
from ..importers.event_columns import NUMBERS, OUTER, TEXTS
from ..reading.trace import Trace

Event = dict[str, Any]


class _Writable(Protocol):
    def write(self, data: bytes, /) -> int: ...


_BATCH = 20_000
_KEPT_HEADER = (
    "deviceProperties",
    "cuda_runtime_version",
    "cuda_driver_version",
    "record_shapes",
    "profile_memory",
    "with_stack",
)
"""Keys of an imported trace's header that hold for all of its events."""
_PHASES = ("data_wait_ns", "forward_ns", "backward_ns", "optimizer_ns")
_PHASE_NAMES = {
    "data_wait_ns": "wait for data",
    "forward_ns": "forward",
    "backward_ns": "backward",
    "optimizer_ns": "optimizer",
}
_CURVES = ("loss", "grad_norm", "clip_norm", "loss_scale", "lr")
_MEMORY = ("rss_bytes", "cuda_allocated_bytes", "cuda_reserved_bytes")
_THREADS = {1: "steps", 2: "phases, laid end to end", 3: "collectives", 4: "events", 5: "findings"}
_SUPERVISOR = "supervisor"
_MADE_UP_NS = 1_000_000
"""Length given to each step of a run that knows no times, such as one imported from a table of losses."""

_KEYS = {column: key for key, column in reversed({**NUMBERS, **TEXTS}.items())}
_OF_THE_DEVICE = {"device": "device", "bytes": "bytes"}
"""How kernels and copies spell what events of memory call otherwise."""
_OUTER = {column: key for key, column in reversed(OUTER.items())}


def export_trace(trace: Trace, out: Path, *, force: bool = False) -> int:
    """Write the timeline of a run to a file, packed if it is called .gz. Returns the number of events.

    Raises ImportFileError where the file cannot be written, or exists and ``force`` does not say to overwrite it.
    """
    if out.exists() and not force:
        raise ImportFileError(f"{out}: is there already; give another --out, or --force to overwrite it")
    timeline = _Timeline(trace)
    tmp = out.with_name(f".{out.name}.tmp")
    count = 0
    try:
        with gzip.open(tmp, "wb", compresslevel=3) if out.suffix == ".gz" else tmp.open("wb") as file:
            file.write(timeline.head())
            for event in timeline.events():
                file.write(b"," if count else b"")
                _write(file, event)
                count += 1
            file.write(b"\n  ]}")
        tmp.replace(out)
    except OSError as e:
        raise ImportFileError(f"{out}: cannot be written ({e.strerror}); give another --out") from e
    finally:
        tmp.unlink(missing_ok=True)
    return count


def _write(file: _Writable, event: Event) -> None:
    lines = [f"    {_json(key)}: {_json(value)}" for key, value in event.items() if key != "args"]
    text = "\n  {\n" + ",\n".join(lines)
    if "args" in event:
        text += (
            ',\n    "args": {\n      '
            + ", ".join(f"{_json(k)}: {_json(v)}" for k, v in event["args"].items())
            + "\n    }"
        )
    file.write((text + "\n  }").encode("utf-8", "replace"))


class _Microseconds(int):
    """Nanoseconds that are written as microseconds, to the last digit: a binary fraction of a late moment is off by one."""


def _json(value: Any) -> str:
    if isinstance(value, _Microseconds):
        whole, rest = divmod(abs(value), 1000)
        return f"{'-' if value < 0 else ''}{whole}.{rest:03d}"
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:  # JSON has no NaN
        return json.dumps(str(value), ensure_ascii=False)


class _Timeline:
    """Everything of a run that has a place in time."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.rows = self._steps()
        self.made_up = bool(self.rows) and not any(row["start"] for row in self.rows)
        if self.made_up:
            for row in self.rows:
                row["start"], row["end"] = row["step"] * _MADE_UP_NS, (row["step"] + 1) * _MADE_UP_NS
        first = trace.sql("SELECT min(ts_ns) AS t FROM profiler_events WHERE ts_ns > 0 AND ph <> 'M'").item()
        starts = [row["start"] for row in self.rows if row["start"]] + ([first] if first else [])
        self.base = min(starts, default=0) // 10**9 * 10**9
        self.ranks = sorted({row["rank"] for row in self.rows}) or [0]
        self.ends = {(row["rank"], row["step"]): row for row in self.rows}

    def head(self) -> bytes:
        """The file up to its first event."""
        header: dict[str, Any] = {"schemaVersion": 1, "firstfault_run": self.trace.manifest.run_id, **self._imported()}
        if len(self.ranks) == 1:
            header["distributedInfo"] = {"rank": self.ranks[0], "world_size": self.trace.manifest.world_size or 1}
        if self.made_up:
            header["firstfault_times"] = "not known: one millisecond is drawn for each step"
        lines = "".join(f"    {_json(key)}: {_json(value)},\n" for key, value in header.items())
        start = f'    "displayTimeUnit": "ms",\n    "baseTimeNanoseconds": {self.base},\n    "traceEvents": [\n    '
        return f"{{\n{lines}{start}".encode()

    def _imported(self) -> dict[str, Any]:
        """What the imported traces said of their devices and settings, which tools look up by the devices' numbers."""
        details = self.trace.sql("SELECT detail FROM events WHERE event = 'trace-imported' ORDER BY rank")["detail"]
        found: dict[str, Any] = {}
        for detail in details.to_list():
            header = json.loads(detail or "{}").get("header")
            for key, value in header.items() if isinstance(header, dict) else ():
                if key in _KEPT_HEADER:
                    found.setdefault(key, value)
        return found

    def events(self) -> Iterator[Event]:
        """All events, track by track."""
        for rank in self.ranks:
            yield self._named("process_name", rank, 0, f"rank {rank}")
            for tid, name in _THREADS.items():
                yield self._named("thread_name", rank, tid, name)
        for row in self.rows:
            yield from self._of_step(row)
        yield from self._samples()
        yield from self._collectives()
        yield from self._happenings()
        yield from self._findings()
        yield from self._profiled()

    # -- tracks -------------------------------------------------------------------------------------------------------------

    def _steps(self) -> list[dict[str, Any]]:
        sums = ", ".join(f"sum({c})::BIGINT AS {c}" for c in _PHASES)
        most = ", ".join(f"max({c}) AS {c}" for c in _MEMORY)
        rows = self.trace.sql(
            f"SELECT rank, step, min(nullif(time_ns, 0)) - arg_min(step_ns, time_ns) AS start, max(nullif(time_ns, 0)) AS end,"  # noqa: S608 # own columns
            f" avg(loss) AS loss, max(grad_norm) AS grad_norm, max(clip_norm) AS clip_norm,"
            f" max(loss_scale) AS loss_scale, {sums}, {most}"
            " FROM steps GROUP BY rank, step ORDER BY rank, step"
        ).to_dicts()
        rates = self.trace.sql("SELECT rank, step, max(lr) AS lr FROM param_groups GROUP BY rank, step").rows()
        lr = {(rank, step): rate for rank, step, rate in rates}
        for row in rows:
            row["lr"] = lr.get((row["rank"], row["step"]))
            if row["start"] is None:
                row["start"] = row["end"]
        for before, row in pairwise(rows):  # clocks of two kinds may part by microseconds; bars of one track must not
            if (
                row["rank"] == before["rank"]
                and row["start"]
                and before["end"]
                and row["start"] < before["end"] <= row["end"]
            ):
                row["start"] = before["end"]
        return rows

    def _of_step(self, row: dict[str, Any]) -> Iterator[Event]:
        rank, start, end = row["rank"], row["start"], row["end"]
        if start is None or end is None:
            return
        # only one rank's steps can be those of the file when it is read again
        name = f"ProfilerStep#{row['step']}" if rank == self.ranks[0] else f"step {row['step']}"
        known = {c: row[c] for c in _CURVES if row[c] is not None}
        args = {c: v if math.isfinite(v) else str(v) for c, v in known.items()}
        yield self._bar(name, "user_annotation", rank, 1, start, end - start, args)
        at = start
        for column in _PHASES:
            if row[column]:
                yield self._bar(_PHASE_NAMES[column], "phase", rank, 2, at, row[column], {"step": row["step"]})
                at += row[column]
        for column, value in known.items():
            if math.isfinite(value):
                yield self._counter(column, rank, end, {column: value})
        memory = {c: row[c] for c in _MEMORY if row[c] is not None}
        if memory:
            yield self._counter("memory", rank, end, memory)

    def _samples(self) -> Iterator[Event]:
        rows = self.trace.sql(
            "SELECT time_ns, rss_bytes, memory_used_bytes, cpu_percent FROM system_samples WHERE time_ns > 0 ORDER BY time_ns"
        ).to_dicts()
        for row in rows:
            memory = {c: row[c] for c in ("rss_bytes", "memory_used_bytes") if row[c] is not None}
            if memory:
                yield self._counter("memory of the process tree", _SUPERVISOR, row["time_ns"], memory)
            if row["cpu_percent"] is not None:
                yield self._counter("cpu_percent", _SUPERVISOR, row["time_ns"], {"cpu_percent": row["cpu_percent"]})

    def _collectives(self) -> Iterator[Event]:
        rows = self.trace.sql(
            'SELECT rank, step, op, time_ns, waited_ns, "group", number, numel, place FROM collective_calls'
            " WHERE time_ns > 0 ORDER BY rank, time_ns"
        ).to_dicts()
        for row in rows:
            args = {k: row[k] for k in ("group", "number", "numel", "place", "step") if row[k] is not None}
            if row["waited_ns"] is None:
                yield self._instant(
                    row["op"], "collective", row["rank"], 3, row["time_ns"], {**args, "returned": False}
                )
            else:
                yield self._bar(row["op"], "collective", row["rank"], 3, row["time_ns"], row["waited_ns"], args)

    def _happenings(self) -> Iterator[Event]:
        rows = self.trace.sql(
            "SELECT rank, step, time_ns, event, message FROM events ORDER BY rank, time_ns"
        ).to_dicts()
        for row in rows:
            at = row["time_ns"] or self._end_of(row["rank"], row["step"])
            if at is not None:
                yield self._instant(
                    row["event"], "event", row["rank"], 4, at, {"message": row["message"], "step": row["step"]}
                )

    def _findings(self) -> Iterator[Event]:
        verdict = diagnose(self.trace)
        for kind, findings in (("cause", verdict.causes), ("symptom", verdict.symptoms)):
            for f in findings:
                at = self._end_of(f.rank, f.step)
                if at is not None:
                    args = {"message": f.message, "step": f.step, "module": f.module, "tensor": f.tensor}
                    yield self._instant(f"{kind}: {f.name}", "finding", f.rank, 5, at, args)

    def _profiled(self) -> Iterator[Event]:
        """The events of a profiler as its trace had them."""
        windows = self.trace.sql(
            "SELECT rank, window_id, max(event_id) AS last FROM profiler_events GROUP BY rank, window_id ORDER BY rank, window_id"
        ).rows()
        for rank, window, last in windows:
            for first in range(0, (last or 0) + 1, _BATCH):
                some = self.trace.sql(
                    "FROM profiler_events WHERE rank = $rank AND window_id = $window AND event_id BETWEEN $first AND $last"
                    " ORDER BY event_id",
                    {"rank": rank, "window": window, "first": first, "last": first + _BATCH - 1},
                )
                for row in some.iter_rows(named=True):
                    yield self._restored(row)

    def _restored(self, row: dict[str, Any]) -> Event:
        rest: dict[str, Any] = json.loads(row["args_json"]) if row["args_json"] else {}
        event: Event = {"ph": row["ph"] or "X"}
        for column, key in _OUTER.items():
            if column in {"ph", "scope"} or row[column] is None:
                continue
            event[key] = row[column]
        if row["scope"] is not None:
            event["bp" if row["ph"] in {"f", "t", "s"} else "s"] = row["scope"]
        self._number(event, row["rank"])
        name = row["name"] or ""
        on_host = not (row["cat"] or "").startswith("gpu")  # on the device a step begins later than it counts
        if (
            name.startswith("ProfilerStep#")
            and on_host
            and (len(self.ranks) > 1 or name != f"ProfilerStep#{row['step']}")
        ):
            event["name"] = f"window {row['window_id']}, {name.replace('#', ' ')}"  # a profiler counts its own steps
        if row["ts_ns"] is not None:
            event["ts"] = self._us(row["ts_ns"])
        if row["dur_ns"] is not None:
            event["dur"] = _Microseconds(row["dur_ns"])
        event |= {key.removeprefix("event."): value for key, value in rest.items() if key.startswith("event.")}
        args = {key: value for key, value in rest.items() if not key.startswith("event.")}
        memory = row["device_type"] is not None
        for column, key in (_KEYS if memory else _KEYS | _OF_THE_DEVICE).items():
            if row[column] is not None and key not in args:
                args[key] = json.loads(row[column]) if key in TEXTS else row[column]
        if args:
            event.pop("args", None)
            event["args"] = args
        return event

    def _number(self, event: Event, rank: int) -> None:
        """Numbers that the tables hold as texts become numbers again; of several ranks each has processes of its own."""
        flow = event.get("id")
        if isinstance(flow, str) and flow.isdigit() and len(flow) < 19:
            event["id"] = int(flow)
        for key in ("pid", "tid"):
            text = event.get(key)
            if len(self.ranks) > 1 and key == "pid":
                event[key] = f"rank {rank}: {text}"
            elif isinstance(text, str) and text.isdigit() and len(text) < 16:
                event[key] = int(text)

    # -- kinds of events ------------------------------------------------------------------------------------------------------

    def _end_of(self, rank: int, step: int | None) -> int | None:
        row = self.ends.get((rank, step)) if step is not None else None
        return (row or {}).get("end") or None

    def _us(self, at_ns: int) -> "_Microseconds":
        return _Microseconds(at_ns - self.base)

    def _named(self, what: str, pid: int, tid: int, name: str) -> Event:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}

    def _bar(self, name: str, cat: str, pid: int, tid: int, at: int, length: int, args: dict[str, Any]) -> Event:
        start = self._us(at)
        return {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": pid,
            "tid": tid,
            "ts": start,
            "dur": _Microseconds(length),
            "args": args,
        }

    def _instant(self, name: str, cat: str, pid: int, tid: int, at: int, args: dict[str, Any]) -> Event:
        return {"ph": "i", "cat": cat, "s": "t", "name": name, "pid": pid, "tid": tid, "ts": self._us(at), "args": args}

    def _counter(self, name: str, pid: int | str, at: int, values: dict[str, float]) -> Event:
        return {"ph": "C", "cat": "curve", "name": name, "pid": pid, "tid": 0, "ts": self._us(at), "args": values}
