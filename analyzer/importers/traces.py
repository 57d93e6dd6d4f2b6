"""A profiler's trace into profiler_events and steps."""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

from .host_operators import operators_of
from .kineto import KinetoTrace
from .target import RunTarget
from .trace_checks import doubts, step_facts

_MEMORY = "100MB"
"""What DuckDB may hold while it checks a trace; what it sorts beyond that goes to a scratch file."""

_HEADER = 20_000
"""Characters of the header that are kept beside the events."""


_MOST_RANKS = 10**6
_RANK_IN_NAME = re.compile(r"(?<![a-z])rank[-_. ]?(\d{1,6})(?!\d)", re.IGNORECASE)
_WORKER = re.compile(r"(.+?)\.\d{9,}\.pt\.trace\.json")
"""What tensorboard_trace_handler calls its files: worker and moment; those of one worker are of one rank."""


def import_trace(path: Path, target: RunTarget, label: str) -> str:  # noqa: ARG001 # as all importers have it
    """Read one trace file into the target. Returns what was found, in a few words."""
    trace = KinetoTrace(path)
    trace.find_steps()
    rank = _rank_of(path, trace.header, target)
    part, window = target.next_part("profiler_events", rank), target.next_window(rank)
    trace.write(part, rank=rank, window=window)
    _note_origin(path, trace, target, rank, window)
    operators = operators_of(part, rank, window)
    if operators.num_rows:
        target.write("profiled_operators", rank, operators)
    pa.default_memory_pool().release_unused()
    with (
        TemporaryDirectory(prefix="firstfault-") as folder,
        duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": folder, "threads": 1}) as con,
    ):
        con.execute("SET enable_progress_bar = false")
        target.moments += _moments(con, part)
        _steps(path, trace, target, con, part, rank)
        for doubt in doubts(con, part, trace.nesting):
            words = f"{doubt.events} events of {path.name} {doubt.what}, first {doubt.first}"
            target.event("trace-doubtful", f"{words}: their times cannot be trusted.", rank=rank, step=doubt.step)
    return f"{trace.events} events, {len(trace.spans.spans)} steps, rank {rank}" + (", cut" if trace.cut else "")


def _moments(con: duckdb.DuckDBPyConnection, part: Path) -> list[int]:
    """When the first event of the trace began and the last one ended."""
    first, last = con.execute(
        "SELECT min(ts_ns), max(ts_ns + dur_ns) FROM read_parquet($part, hive_partitioning=false) WHERE ph = 'X' AND dur_ns >= 0",
        {"part": str(part)},
    ).fetchall()[0]
    return [] if first is None else [int(first), int(last)]


def _steps(
    path: Path,
    trace: KinetoTrace,
    target: RunTarget,
    con: duckdb.DuckDBPyConnection,
    part: Path,
    rank: int,
) -> None:
    facts = {f.step: f for f in step_facts(con, part)}
    for step, (start, end) in sorted(trace.spans.spans.items()):
        known: dict[str, Any] = facts[step]._asdict() if step in facts else {}
        known.pop("step", None)
        target.step(rank, step, path, time_ns=end, step_ns=end - start, **known)


def _rank_of(path: Path, header: dict[str, Any], target: RunTarget) -> int:
    """The rank that the trace names, else that of its file's name, else that of its worker, else the first without a trace."""
    about = header.get("distributedInfo")
    told = about if isinstance(about, dict) else {}
    rank, world = told.get("rank"), told.get("world_size")
    if isinstance(world, int) and 0 < world < 2**31:
        target.facts["world_size"] = world
    if isinstance(rank, int) and 0 <= rank < _MOST_RANKS:
        return rank
    return rank_in_name(path, target)


def rank_in_name(path: Path, target: RunTarget) -> int:
    """The rank that the name of a trace tells, else that of its worker, else the first without a trace."""
    named = _RANK_IN_NAME.search(path.name)
    if named:
        return int(named[1])
    first = next(rank for rank in range(len(target.traced_ranks) + 1) if rank not in target.traced_ranks)
    worker = _WORKER.match(path.name)
    return target.workers.setdefault(worker[1], first) if worker else first


def _kept(header: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The keys of a header that together are not too long, short ones first, and the names of the others."""
    kept: dict[str, Any] = {}
    left, room = [], _HEADER
    for length, key in sorted((len(json.dumps(value, ensure_ascii=False)), key) for key, value in header.items()):
        room -= length
        if room >= 0:
            kept[key] = header[key]
        else:
            left.append(key)
    return kept, left


def _note_origin(path: Path, trace: KinetoTrace, target: RunTarget, rank: int, window: int) -> None:
    header = trace.header
    if isinstance(header.get("host_name"), str):
        target.facts.setdefault("hostname", header["host_name"])
    detail: dict[str, Any] = {"file": str(path), "window_id": window, "base_time_ns": trace.base_ns or None}
    detail["header"], left_out = _kept(header)
    if left_out:
        detail["header_left_out"] = left_out
    message = f"{trace.events} events of {path.name} imported as window {window}."
    target.event("trace-imported", message, rank=rank, detail=json.dumps(detail, ensure_ascii=False))
    broken = trace.broken_at
    if broken is not None:
        message = f"{path.name} is no JSON from character {broken} on: only the {trace.events} events before it were imported."
        target.event("trace-cut", message, rank=rank)
    elif trace.cut:
        left = f"{trace.torn_bytes} bytes of one that is not were left out"
        message = f"{path.name} breaks off in the middle: {trace.events} events are whole, {left}."
        target.event("trace-cut", message, rank=rank)
    if trace.unparsed:
        message = f"{trace.unparsed} events of {path.name} are no valid JSON; their text stands in args_json."
        target.event("trace-unreadable-events", message, rank=rank)
