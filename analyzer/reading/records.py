"""run.json and exit.json as rows of the tables declared in schemas/files/records.py."""

from typing import Any

import msgspec
import pyarrow as pa

from ...schemas import RECORDS, ExitRecord, RunManifest, Table
from ..verdict import Status
from .liveness import recorded_here


def record_rows(manifest: RunManifest, exit_: ExitRecord | None, status: Status) -> dict[str, pa.Table]:
    """Rows of runs, exits, last_positions and exception_tensors; exits has one row even without an exit record."""
    run = msgspec.to_builtins(manifest)
    run |= {k: msgspec.json.encode(run[k]).decode() for k in ("argv", "versions", "config", "options")}
    return {
        "runs": as_table("runs", [run]),
        "attempts": as_table("attempts", _attempts(manifest, exit_, status)),
        "exits": as_table("exits", [_exit_row(exit_, status, here=recorded_here(manifest))]),
        "last_positions": as_table("last_positions", msgspec.to_builtins(exit_.last_positions) if exit_ else []),
        "exception_tensors": as_table("exception_tensors", _exception_tensors(exit_)),
    }


def _attempts(manifest: RunManifest, exit_: ExitRecord | None, status: Status) -> list[dict[str, Any]]:
    found = [(a, a.exit, a.exit.status if a.exit else "host-lost") for a in manifest.earlier]
    rows: list[dict[str, Any]] = []
    for about, ended, how in [*found, (manifest, exit_, status)]:
        row: dict[str, Any] = msgspec.to_builtins(about) | {"status": how}
        if ended is not None:
            row |= {k: getattr(ended, k) for k in ("ended_ns", "exit_code", "signal_name", "note")}
            row["exception_type"] = ended.exception.type if ended.exception else None
        rows.append(row)
    return rows


def _exit_row(exit_: ExitRecord | None, status: Status, *, here: bool) -> dict[str, Any]:
    if exit_ is None:
        return {"status": status, "process_gone": True if status == "host-lost" and here else None}
    row: dict[str, Any] = msgspec.to_builtins(exit_)
    if exit_.exception is not None:
        e = exit_.exception
        row |= {k: getattr(e, k) for k in ("rank", "step", "microbatch", "phase", "module", "module_class")}
        row |= {"exception_type": e.type, "exception_message": e.message}
        row |= {"traceback": e.traceback, "user_frame": e.user_frame}
    return row


def _exception_tensors(exit_: ExitRecord | None) -> list[dict[str, Any]]:
    if exit_ is None or exit_.exception is None:
        return []
    rows: list[dict[str, Any]] = []
    e = exit_.exception
    for origin, tensors in (("input", e.inputs), ("local", e.locals), ("attribute", e.attributes)):
        for ordinal, tensor in enumerate(tensors):
            row = {"origin": origin, "ordinal": ordinal, "name": _text(tensor.get("name"))}
            row |= {"dtype": _text(tensor.get("dtype")), "device": _text(tensor.get("device"))}
            row |= {"shape": _shape(tensor.get("shape"))}
            row |= {"min": _number(tensor.get("min")), "max": _number(tensor.get("max"))}
            rows.append(row)
    return rows


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _shape(value: Any) -> list[int] | None:
    return [int(n) for n in value] if isinstance(value, list | tuple) else None


def as_table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows in the declared shape of a record."""
    table: Table = RECORDS[name]
    return pa.table([pa.array([r.get(c.name) for r in rows], c.type) for c in table.columns], names=table.column_names)
