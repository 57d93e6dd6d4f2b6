"""Dumps of torch's Flight Recorder (pickle, or its JSON form) into collectives.

The format is that of torch/csrc/distributed/c10d/FlightRecorder.hpp, versions 2.x. What a dump does not tell: the step (all
calls are of step 0 here) and, in its contents, the rank (it ends the file's name, as torch writes it). Under gloo no call ever
counts as ended in it.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...schemas.files.cuda_snapshot import is_script
from ..errors import ImportFileError
from .byte_streams import ByteStream
from .target import RunTarget

_OPS = {
    "_all_gather_base": "all_gather_into_tensor",
    "_allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "all_to_all_base": "all_to_all_single",
}
_DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}  # fmt: skip
_ALIKE = ("all_reduce", "broadcast", "reduce", "all_gather_into_tensor", "reduce_scatter_tensor")
"""Calls in which all ranks must give equally many elements."""

_LARGEST = 1 << 30


def read_dump(path: Path) -> Any:
    """A dump in its JSON form. Raises ImportFileError."""
    with ByteStream(path) as stream:
        raw = stream.read(_LARGEST)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise ImportFileError(f"{path}: is no whole JSON ({e}); dump it again") from e


def import_dump(path: Path, dump: Any, target: RunTarget) -> str:
    """Add the calls of one rank from a dump that has been read. Returns what was found, in a few words."""
    entries = dump.get("entries") if isinstance(dump, Mapping) else None
    if not isinstance(entries, list):
        raise ImportFileError(f"{path}: has no entries; was it written by torch's Flight Recorder?")
    rank = _rank(path, target)
    world = [_ranks(group) for group in (dump.get("pg_config") or {}).values() if isinstance(group, Mapping)]
    if world and (most := max(map(len, world))) > 0:
        target.facts["world_size"] = max(most, target.facts.get("world_size") or 0)
    rows = [_row(entry, n) for n, entry in enumerate(entries) if isinstance(entry, Mapping)]
    seen: set[tuple[str, int]] = set()
    for row in rows:
        if (row["group"], row["number"]) not in seen:  # several calls that went out as one share their number
            seen.add((row["group"], row["number"]))
            target.add("collectives", {"rank": rank, **row})
    open_ = sum(row["waited_ns"] is None for row in rows)
    return f"{len(rows)} calls of rank {rank}, {open_} without an end"


def _row(entry: Mapping[str, Any], order: int) -> dict[str, Any]:
    op = str(entry.get("profiling_name") or "").rpartition(":")[2].split("(")[0].strip().lower()
    group = entry.get("process_group")
    names = (
        [str(part) for part in group] if isinstance(group, Iterable) and not isinstance(group, str) else [str(group)]
    )
    name = (
        "default"
        if "default_pg" in names
        else next((part for part in reversed(names) if part and part != "undefined"), "default")
    )
    p2p = entry.get("is_p2p") is True
    began, ended = _int(entry.get("time_discovered_started_ns")), _int(entry.get("time_discovered_completed_ns"))
    sizes = entry.get("input_sizes")
    dtypes = entry.get("input_dtypes")
    number = _int(entry.get("collective_seq_id"))
    return {
        "step": 0,
        "seq": order,
        "time_ns": _int(entry.get("time_created_ns")) or 0,
        # sends and receives have a count of their own, in which ranks need not agree
        "group": f"{name}, between two" if p2p else name,
        "number": order if p2p or number is None else max(number - 1, 0),
        "op": _OPS.get(op, op),
        "dtype": _DTYPES.get(str(dtypes[0]).lower(), str(dtypes[0]).lower())
        if isinstance(dtypes, list) and dtypes
        else None,
        "numel": sum(math.prod(s) for s in sizes if _is_shape(s)) if isinstance(sizes, list) and sizes else None,
        "blocking": True,
        "waited_ns": ended - began if began and ended and ended >= began else None,
        "place": _place(entry.get("frames")),
    }


def settle_end(target: RunTarget) -> None:
    """Ranks that make different calls at one number cannot both go on: such dumps are those of a run that hung."""
    calls: dict[tuple[str, int], set[tuple[Any, ...]]] = {}
    for row in target.rows_of("collectives"):
        if not row["group"].endswith(", between two"):
            calls.setdefault((row["group"], row["number"]), set()).add(
                (row["op"], row["dtype"], row["numel"] if row["op"] in _ALIKE else None)
            )
    if any(len(different) > 1 for different in calls.values()):
        target.facts["status"] = "hang"


def _rank(path: Path, target: RunTarget) -> int:
    """The number that ends the file's name, else the first rank of which there is nothing."""
    found = re.search(r"(\d{1,6})$", path.name.split(".")[0])
    taken = {int(row["rank"]) for row in target.rows_of("collectives")}
    if found and int(found[1]) not in taken:
        return int(found[1])
    return next(rank for rank in range(len(taken) + 1) if rank not in taken)


def _ranks(group: Mapping[str, Any]) -> list[Any]:
    try:
        ranks = json.loads(str(group.get("ranks") or "[]"))
    except ValueError:
        return []
    return ranks if isinstance(ranks, list) else []


def _place(frames: Any) -> str | None:
    for frame in frames if isinstance(frames, list) else ():
        file = str(frame.get("filename") or "") if isinstance(frame, Mapping) else ""
        if is_script(file):
            return f"{file}:{frame.get('line')} in {frame.get('name')}"
    return None


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(n, int) for n in value)


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
