"""Makes rows of `profiler_events` from the traces that profiler windows have left: beside the training, never in its process.

A trace counts once its file has its name and the facts beside it; both are removed when the part with its rows is on the disk.
What cannot be true is left out and counted: lengths below zero, events outside the window, calls that overlap on one thread.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from ...schemas import TABLES, Phase
from ...schemas.files.layout import PROFILES, part_path
from ...schemas.files.parts import write_part
from .profiler_names import is_of_the_script

MODULE_MARK = "firstfault.module="
OPTIMIZER_MARK = "firstfault.optimizer"
RECORDER_MARK = "firstfault.recorder"
_BACKWARD = "autograd::engine::evaluate_function: "
_SLACK_NS = 2_000
"""Clocks of host and device, and rounding to whole nanoseconds, may disagree by so much."""

_OWN_COLUMNS = {
    "External id": "external_id",
    "Record function id": "record_function_id",
    "Ev Idx": "index",
    "Sequence number": "seq_nr",
    "Fwd thread id": "fwd_tid",
    "correlation": "correlation",
    "stream": "stream",
    "device": "device",
}
_AS_JSON = {
    "Input Dims": "input_dims",
    "Input type": "input_types",
    "Input Strides": "input_strides",
    "Concrete Inputs": "concrete_inputs",
}


class WindowFacts(msgspec.Struct, kw_only=True):
    """What is to be known of a window beside its trace."""

    rank: int
    window: int
    steps: list[tuple[int, int]]
    """(step, wall clock in ns at its end), in order."""
    began_ns: int
    tail_ns: int
    """When the recorder's hook began in which the window was closed: what comes after is the recorder's."""


class _Event(msgspec.Struct):
    """One event of the trace; ts and dur in microseconds."""

    ph: str
    name: str
    cat: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: float = 0.0
    dur: float = 0.0
    args: dict[str, Any] = {}


class _TraceFile(msgspec.Struct):
    """What the profiler saves."""

    baseTimeNanoseconds: int  # noqa: N815 — its name in the file
    traceEvents: list[_Event]  # noqa: N815


def decode(text: bytes) -> _TraceFile:
    """A trace as the profiler saves it. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=_TraceFile)


class Converted(msgspec.Struct):
    """What has become of a window."""

    facts: WindowFacts
    events: int
    dropped: int


def convert(run: Path, told: Callable[[Converted], None]) -> int:
    """Make parts of all windows that are there, tell of each, and remove their files; returns how many. Raises OSError where a
    part could not be written: the files stay. A trace that is not readable is removed, and told of with no events."""
    done = 0
    root = run / PROFILES
    for path in sorted(root.glob("*/window-*.json")) if root.is_dir() else ():
        beside = path.with_suffix(".window")
        try:
            facts = msgspec.json.decode(beside.read_bytes(), type=WindowFacts)
        except (FileNotFoundError, msgspec.MsgspecError):
            path.unlink()  # of a window that was not finished
            continue
        try:
            rows, dropped = rows_of(decode(path.read_bytes()), facts)
        except msgspec.MsgspecError:
            rows, dropped = [], 0
        if rows:
            table = pa.Table.from_pylist(rows, TABLES["profiler_events"].schema)
            write_part(part_path(run, facts.rank, "profiler_events", facts.window), "profiler_events", table, {})
        path.unlink()
        beside.unlink()
        told(Converted(facts, len(rows), dropped))
        done += 1
    return done


def rows_of(trace: _TraceFile, facts: WindowFacts) -> tuple[list[dict[str, Any]], int]:
    """Rows in the order of the trace, and how many events were left out because they cannot be true."""
    base = trace.baseTimeNanoseconds
    end_ns = facts.steps[-1][1]
    rows: list[dict[str, Any]] = []
    dropped = 0
    for position, event in enumerate(trace.traceEvents):
        if event.ph not in "Xi" or not event.cat or event.cat == "Trace":
            continue
        ts = base + round(event.ts * 1000)
        dur = round(event.dur * 1000) if event.ph == "X" else None
        if (dur is not None and dur < 0) or not facts.began_ns - 1_000_000 <= ts <= end_ns + 1_000_000_000:
            dropped += 1
            continue
        rows.append(_row(event, position, ts, dur, facts))
    by_thread: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["ph"] == "X":
            by_thread.setdefault((row["pid"], row["tid"]), []).append(row)
    made_by = _nest(by_thread.values(), facts)
    for row in rows:
        if row.get("module_id") is None and row.get("backward_of") is not None:
            row["module_id"] = made_by.get(row["backward_of"])
        row.pop("backward_of", None)
    kept = [row for row in rows if row["cat"] != "overlap"]
    return kept, dropped + len(rows) - len(kept)


def _row(event: _Event, position: int, ts: int, dur: int | None, facts: WindowFacts) -> dict[str, Any]:
    step = facts.steps[-1][0]
    for earlier, end_ns in facts.steps:
        if ts <= end_ns:
            step = earlier
            break
    row: dict[str, Any] = {
        "rank": facts.rank,
        "step": step,
        "window_id": facts.window,
        "event_id": position,
        "ph": event.ph,
        "cat": event.cat,
        "name": event.name,
        "pid": str(event.pid),
        "tid": str(event.tid),
        "ts_ns": ts,
        "dur_ns": dur,
        "self_ns": dur,
    }
    rest: dict[str, Any] = {}
    for key, value in event.args.items():
        if (column := _OWN_COLUMNS.get(key)) is not None and isinstance(value, int):
            row[column] = value
        elif (column := _AS_JSON.get(key)) is not None:
            row[column] = msgspec.json.encode(value).decode()
        elif key in {"bytes", "Bytes"} and isinstance(value, int):
            row["bytes"] = value
        else:
            rest[key] = value
    if rest:
        row["args_json"] = msgspec.json.encode(rest).decode()
    return row


def _nest(threads: Iterable[list[dict[str, Any]]], facts: WindowFacts) -> dict[int, int | None]:
    """Fill self_ns, module_id and phase from what lies inside what; returns, by sequence number, the module in which autograd
    made a node: of several operators that began with the number, the last one made it."""
    made_by: dict[int, int | None] = {}
    for events in threads:
        events.sort(key=lambda row: (row["ts_ns"], -row["dur_ns"]))
        open_: list[dict[str, Any]] = []
        frames: list[tuple[int, str | None]] = []
        for row in events:
            begin, end = row["ts_ns"], row["ts_ns"] + row["dur_ns"]
            while frames and frames[-1][0] <= begin:
                frames.pop()
            if frames:
                row["source"] = frames[-1][1]
            if row["cat"] == "python_function":
                # no work of its own: what it calls keeps its place among operators and modules
                row["self_ns"] = None
                frames.append((end, row["name"] if is_of_the_script(row["name"]) else row.get("source")))
                continue
            while open_ and open_[-1]["ts_ns"] + open_[-1]["dur_ns"] <= begin + (0 if row["dur_ns"] else -1):
                open_.pop()
            above = open_[-1] if open_ else None
            if above is not None:
                above_end = above["ts_ns"] + above["dur_ns"]
                if end > above_end + _SLACK_NS:
                    row["cat"] = "overlap"
                    continue
                above["self_ns"] -= min(row["dur_ns"], above["self_ns"])
                row["module_id"], row["phase"], row["backward_of"] = (
                    above.get("module_id"),
                    above.get("phase"),
                    above.get("backward_of"),
                )
            number = _classify(row, above, facts)
            if number is not None:
                made_by[number] = row.get("module_id")
            open_.append(row)
    return made_by


def _classify(row: dict[str, Any], above: dict[str, Any] | None, facts: WindowFacts) -> int | None:
    """Set category, module and phase of an event that has inherited them from the one above it; returns the sequence number
    of a forward operator."""
    name, number = row["name"], row.get("seq_nr")
    if name.startswith(MODULE_MARK):
        row["cat"], row["module_id"] = "module", int(name.removeprefix(MODULE_MARK))
        if row.get("phase") is None:
            row["phase"] = int(Phase.FORWARD)
    elif name == RECORDER_MARK or (above is not None and above["cat"] == "recorder") or row["ts_ns"] >= facts.tail_ns:
        row["cat"], row["module_id"], row["phase"], row["backward_of"] = "recorder", None, None, None
    elif name == OPTIMIZER_MARK:
        row["cat"], row["phase"] = "optimizer", int(Phase.OPTIMIZER)
    elif name.startswith(_BACKWARD):
        row["phase"], row["backward_of"], row["module_id"] = int(Phase.BACKWARD), number, None
    elif row.get("phase") == int(Phase.BACKWARD):
        if number is not None:  # where the node has hooks only the event inside it has its number
            row["backward_of"], row["module_id"] = number, None
    elif not row.get("fwd_tid"):
        return number
    return None
