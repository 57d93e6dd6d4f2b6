"""One entry of a Flight Recorder dump as a row of collectives."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

OPS = {
    "_all_gather_base": "all_gather_into_tensor",
    "_allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allgather": "all_gather",
    "all_to_all_base": "all_to_all_single",
    "all_reduce_barrier": "barrier",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
"""How process groups call what torch.distributed calls otherwise."""
DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}  # fmt: skip
"""Names of types in C++ -> those of torch."""
BETWEEN_TWO = ", between two"
"""What follows the name of a group in the name of its sends and receives."""

_SEND, _RECEIVE = re.compile(r"send (\d+)->(\d+)"), re.compile(r"recv (\d+)<-(\d+)")
_STATES = ("scheduled", "started", "completed")


def call_row(entry: Mapping[str, Any], order: int, members: Mapping[str, list[int]]) -> dict[str, Any]:
    """The columns that the entry tells, but for its rank and its stack."""
    backend, _, name = str(entry.get("profiling_name") or "").rpartition(":")
    op, peer = _op_and_peer(name, members.get(_name(entry.get("process_group")), []))
    group = group_of(entry.get("process_group"), members)
    p2p = entry.get("is_p2p") is True or peer is not None
    number = natural(entry.get("collective_seq_id"))
    began, ended = natural(entry.get("time_discovered_started_ns")), natural(entry.get("time_discovered_completed_ns"))
    told, timeout = entry.get("duration_ms"), natural(entry.get("timeout_ms"))
    waited = round(told * 1e6) if isinstance(told, int | float) and 0 <= told < 1e12 else None
    state = str(entry.get("state") or "")
    sizes, dtypes = entry.get("input_sizes"), entry.get("input_dtypes")
    dtype = str(dtypes[0]).lower() if isinstance(dtypes, list) and dtypes else None
    return {
        "seq": order,
        "time_ns": natural(entry.get("time_created_ns")) or 0,
        # sends and receives have a count of their own, in which ranks need not agree
        "group": group + BETWEEN_TWO if p2p else group,
        "number": order if p2p or number is None else max(number - 1, 0),
        "op": op,
        "peer": peer,
        "dtype": None if dtype is None else DTYPES.get(dtype, dtype),
        "numel": sum(math.prod(s) for s in sizes if _is_shape(s)) if isinstance(sizes, list) and sizes else None,
        "blocking": True,
        "waited_ns": waited if waited is not None else ended - began if began and ended and ended >= began else None,
        # gloo's entries stay at scheduled, whatever became of them
        "state": state if state in _STATES and backend != "gloo" else None,
        "timeout_ns": None if timeout is None else timeout * 1_000_000,
    }


def group_of(pair: Any, members: Mapping[str, list[int]]) -> str:
    """A name for the process group that no other group has: several have one description, and parts of a split one name."""
    name, about = _name(pair), str(pair[1]) if isinstance(pair, list | tuple) and len(pair) > 1 else ""
    if about == "default_pg":
        return "default"
    label = name if about in {"", "undefined", "None"} else f"{about} ({name})"
    ranks = members.get(name)
    return f"{label or 'default'} of {_spans(ranks)}" if ranks else label or "default"


def ranks_in(text: Any) -> list[int]:
    """The ranks that a dump writes as a text such as ``[0, 1]``."""
    try:
        ranks = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return []
    return [rank for rank in ranks if isinstance(rank, int)] if isinstance(ranks, list) else []


def natural(value: Any) -> int | None:
    """A whole number that is not negative, which some dumps write as text; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _name(pair: Any) -> str:
    return str(pair[0]) if isinstance(pair, list | tuple) and pair else "" if pair is None else str(pair)


def _op_and_peer(name: str, members: list[int]) -> tuple[str, int | None]:
    """The call's name as torch.distributed has it, and the other rank of a send or a receive."""
    for op, pattern in (("send", _SEND), ("recv", _RECEIVE)):
        if found := pattern.match(name):
            peer = int(found[2][:9])
            return op, members[peer] if peer < len(members) else peer
    op = name.split("(", maxsplit=1)[0].strip().lower()
    return OPS.get(op, op), None


def _spans(ranks: list[int]) -> str:
    """Ranks in a few words, such as ``ranks 0-3, 8``."""
    spans: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = [f"{first}" if first == last else f"{first}-{last}" for first, last in spans[:8]]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(words)}{', …' if len(spans) > 8 else ''}"


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(n, int) for n in value)
