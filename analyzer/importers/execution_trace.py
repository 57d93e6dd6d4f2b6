"""An execution trace (`ExecutionTraceObserver`, Chakra's schema) into profiler_events: operators in order, without times.

Up to schema 1.0.1 a node has its fields side by side; later ones keep them in `inputs`, `outputs` and a list `attrs`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ..errors import ImportFileError
from .byte_streams import ByteStream
from .event_columns import rows_table
from .execution_calls import call_rows, rank_of
from .target import RunTarget
from .traces import rank_in_name

_LARGEST = 1 << 30
_FRAME = ("[pytorch|profiler|execution_trace|", "[pytorch|profiler|execution_graph|")
"""How the nodes begin that stand for the process and its threads."""


def import_execution_trace(path: Path, target: RunTarget, label: str) -> str:  # noqa: ARG001 # as all importers have it
    """Read one execution trace into the target. Returns what was found, in a few words."""
    with ByteStream(path) as stream:
        raw = stream.read(_LARGEST)
    try:
        whole = json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise ImportFileError(f"{path}: is no whole JSON ({e}); record the execution trace again") from e
    nodes = whole.get("nodes") if isinstance(whole, Mapping) else None
    if not isinstance(nodes, list):
        raise ImportFileError(f"{path}: has no list of nodes; was it written by torch's ExecutionTraceObserver?")
    nodes = [node for node in nodes if isinstance(node, Mapping)]
    told = rank_of(nodes)
    rank = told if told is not None else rank_in_name(path, target)
    window = target.next_window(rank)
    rows = [_row(node) for node in nodes if not str(node.get("name")).startswith(_FRAME)]
    for number, row in enumerate(rows):
        row |= {"rank": rank, "window_id": window, "event_id": number}
    if not rows:
        raise ImportFileError(f"{path}: names no operator; record it over at least one step")
    pq.write_table(rows_table(rows), target.next_part("profiler_events", rank), compression="zstd")
    calls = list(call_rows(nodes)) if not window else []  # numbers of another run would be taken for the same calls
    for call in calls:
        target.add("collectives", {"rank": rank, **call})
    if calls:
        target.write_out("collectives", rank)
    message = f"{len(rows)} operators of {path.name} imported as window {window}; an execution trace has no times."
    target.event("execution-trace-imported", message, rank=rank, detail=json.dumps({"schema": whole.get("schema")}))
    between = f", {len(calls)} calls between ranks" if calls else ""
    return f"{len(rows)} operators without times{between}, rank {rank}"


def _row(node: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {
        str(one.get("name")): one.get("value") for one in _list(node.get("attrs")) if isinstance(one, Mapping)
    }
    told = {**attributes, **{name: value for name, value in node.items() if name != "attrs"}}
    inputs, outputs = told.get("inputs"), told.get("outputs")
    given = inputs if isinstance(inputs, Mapping) else {
        "values": inputs, "shapes": told.get("input_shapes"), "types": told.get("input_types"), "strides": None,
    }  # fmt: skip
    kept = {
        name: told.get(name) for name in ("id", "ctrl_deps", "parent", "fw_parent", "scope", "op_schema", "pg_name")
    }
    kept["outputs"] = outputs
    return {
        "ph": "N",
        "cat": "cpu_op",
        "name": str(told.get("name")),
        "tid": None if told.get("tid") is None else str(told["tid"]),
        "record_function_id": _whole(told.get("rf_id")),
        "seq_nr": _whole(told.get("seq_id")),
        "fwd_tid": _whole(told.get("fw_tid")),
        "input_dims": _text(given.get("shapes")),
        "input_types": _text(given.get("types")),
        "input_strides": _text(given.get("strides")),
        "concrete_inputs": _text(given.get("values")),
        "args_json": _text({name: value for name, value in kept.items() if value is not None}),
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63 else None
