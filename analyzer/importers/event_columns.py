"""Which key of a trace event becomes which column of profiler_events; whatever is no column goes to args_json.

The keys are those that Kineto writes (libkineto/src/output_json.cpp); other producers of the Chrome trace format share the
outer ones.
"""

import json
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ...schemas import TABLES

EVENTS = TABLES["profiler_events"]

OUTER = {
    "ph": "ph",
    "cat": "cat",
    "name": "name",
    "pid": "pid",
    "tid": "tid",
    "id": "flow_id",
    "s": "scope",
    "bp": "scope",
}
"""Key of an event → text column. An event has `s` (instants) or `bp` (ends of flows), never both."""

NUMBERS = {
    "External id": "external_id",
    "external id": "external_id",
    "Record function id": "record_function_id",
    "Ev Idx": "index",
    "Sequence number": "seq_nr",
    "Fwd thread id": "fwd_tid",
    "Bytes": "bytes",
    "bytes": "bytes",
    "Addr": "addr",
    "Total Allocated": "total_allocated",
    "Total Reserved": "total_reserved",
    "Device Id": "device",
    "device": "device",
    "Device Type": "device_type",
    "stream": "stream",
    "correlation": "correlation",
    "Python id": "python_id",
    "Python parent id": "python_parent_id",
    "Python module id": "python_module_id",
}
"""Key of `args` → whole-number column. Where two keys share a column an event has one; of both, the second goes to args_json."""

TEXTS = {
    "Input Dims": "input_dims",
    "Input type": "input_types",
    "Input Strides": "input_strides",
    "Concrete Inputs": "concrete_inputs",
}
"""Key of `args` → column that holds its value as JSON."""

UNPARSED = "firstfault.unparsed"
"""Key of args_json under which the text of an event stands that is no JSON."""

_MOST = 2**63

LATEST_US = 4e15
"""A later `ts` or `dur` is none: in nanoseconds, and added to the latest base, it would leave 64 bits."""


def row_of(event: Any, base_ns: int) -> dict[str, Any]:
    """One event as a row of profiler_events; values of an unexpected type are kept in args_json."""
    if not isinstance(event, Mapping):
        return {"args_json": json.dumps({UNPARSED: event})}
    row: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in event.items():
        if key == "args" and isinstance(value, Mapping):
            continue
        if (
            key in OUTER
            and row.get(OUTER[key]) is None
            and isinstance(value, str | int)
            and not isinstance(value, bool)
        ):
            row[OUTER[key]] = str(value)
        elif key == "ts" and _in_ns(value) is not None:
            row["ts_ns"] = base_ns + (_in_ns(value) or 0)
        elif key == "dur" and _in_ns(value) is not None:
            row["dur_ns"] = _in_ns(value)
        else:
            rest[f"event.{key}"] = value
    args = event.get("args")
    for key, value in args.items() if isinstance(args, Mapping) else ():
        column = NUMBERS.get(key)
        if column and row.get(column) is None and type(value) is int and -_MOST <= value < _MOST:
            row[column] = value
        elif key in TEXTS and isinstance(value, list):
            row[TEXTS[key]] = _json(value)
        elif value is not None or column is None:
            rest[key] = value
    if rest:
        row["args_json"] = _json(rest)
    return row


def _json(value: Any) -> str:
    """JSON, in which a number that is none becomes a text: `NaN` would keep everything beside it from being read."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_spelled(value), separators=(",", ":"), ensure_ascii=False)


def _spelled(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _spelled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_spelled(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _in_ns(value: Any) -> int | None:
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) < LATEST_US
    ):
        return round(Decimal(repr(value)) * 1000)  # a binary fraction times a thousand is off by one now and then
    return None


def rows_table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows as an Arrow table in the declared shape."""
    found = list(rows)
    arrays = [pa.array([_clean(row.get(c.name)) for row in found], c.type) for c in EVENTS.columns]
    return pa.Table.from_arrays(arrays, schema=EVENTS.schema)


def _clean(value: Any) -> Any:
    """Text that UTF-8 can hold: JSON may spell half of a surrogate pair."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
