"""Trace files as Kineto lays them out, written by hand."""

import json
from pathlib import Path
from typing import Any

BASE = 1_700_000_000_000_000_000


def event(name: str, ts: float, dur: float | None = 10.0, **more: Any) -> dict[str, Any]:
    """One complete event on thread 1, unless told otherwise."""
    args = more.pop("args", {"External id": 1, "Ev Idx": 0})
    length = {} if dur is None else {"dur": dur}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, **length, **more, "args": args}


def laid_out(one: dict[str, Any]) -> str:
    """An event in Kineto's lines."""
    outer = [f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in one.items() if k != "args"]
    args = ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in one["args"].items())
    return "\n  {\n" + ",\n".join(outer) + ',\n    "args": {\n      ' + args + "\n    }\n  }"


def kineto(path: Path, events: list[dict[str, Any]], **header: Any) -> Path:
    """A whole file."""
    head = "".join(f"    {json.dumps(k)}: {json.dumps(v)},\n" for k, v in header.items())
    path.write_text(
        '{\n    "schemaVersion": 1,\n'
        + head
        + f'    "displayTimeUnit": "ms",\n    "baseTimeNanoseconds": {BASE},\n    "traceEvents": [\n    '
        + ",".join(map(laid_out, events))
        + '\n  ],"traceName": "x.json" }'
    )
    return path
