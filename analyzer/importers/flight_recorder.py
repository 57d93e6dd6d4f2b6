"""Dumps of torch's Flight Recorder (pickle, or its JSON form) into collectives and process_groups, one dump a rank.

The format is that of torch/csrc/distributed/c10d/FlightRecorder.hpp, versions 2.x. What a dump does not tell: the step, and
mostly the rank (it ends the file's name, as torch writes it). Its entries are a ring: old calls may be missing, new ones are not.
Under gloo no call ever counts as ended, and the groups do not name their ranks.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ImportFileError
from .byte_streams import ByteStream
from .flight_calls import BETWEEN_TWO, call_row, group_of, natural, ranks_in
from .stacks import Stacks
from .target import RunTarget

_LARGEST = 1 << 30
_MOST_RANKS = 10**6


def read_dump(path: Path) -> Any:
    """A dump in its JSON form. Raises ImportFileError."""
    with ByteStream(path) as stream:
        raw = stream.read(_LARGEST)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise ImportFileError(f"{path}: is no whole JSON ({e}); dump it again") from e


def is_dump(found: Any) -> bool:
    """Whether a value that was read is a dump; one of a rank without a call has no entries."""
    return isinstance(found, Mapping) and ("entries" in found or "pg_config" in found or "pg_status" in found)


def import_dump(path: Path, dump: Any, target: RunTarget) -> str:
    """Add the calls of one rank from a dump that has been read. Returns what was found, in a few words."""
    entries = dump.get("entries", []) if is_dump(dump) else None
    if not isinstance(entries, list):
        raise ImportFileError(f"{path}: has no entries; was it written by torch's Flight Recorder?")
    entries = [entry for entry in entries if isinstance(entry, Mapping)]
    rank = _rank(path, dump, target)
    target.calls.ranks.add(rank)
    members = _members(dump)
    if (most := max(map(len, members.values()), default=0)) > 0:
        target.facts["world_size"] = max(most, target.facts.get("world_size") or 0)
    latest = max((natural(entry.get(name)) or 0 for entry in entries for name in _TIMES), default=0)
    stacks = Stacks(target, rank)
    made: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    open_ = told = 0
    for order, entry in enumerate(entries):
        row = call_row(entry, order, members)
        made[row["group"]] = max(made.get(row["group"], 0), row["number"] + 1)
        if (row["group"], row["number"]) in seen:  # several calls that went out as one share their number
            continue
        seen.add((row["group"], row["number"]))
        frames = entry.get("frames")
        row |= {"rank": rank, "place": stacks.place_of(frames), "frames_id": stacks.id_of(frames)}
        target.add("collectives", row)
        open_ += row["state"] in {"scheduled", "started"}
        told += row["state"] is not None
        p2p = row["group"].endswith(BETWEEN_TWO)
        target.calls.add(row, latest_ns=latest, retired=entry.get("retired") is True, matched=not p2p)
    _groups(dump, entries, made, members, target, rank)
    for table in ("collectives", "process_groups", "frames"):
        target.write_out(table, rank)
    pending = f"{open_} without an end" if told or not entries else "which do not tell their ends"
    return f"{len(entries)} calls of rank {rank}, {pending}"


_TIMES = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")


def settle_end(target: RunTarget) -> None:
    """Say that the run hung where the dumps prove it."""
    if target.calls.hung:
        target.facts["status"] = "hang"


def _members(dump: Mapping[str, Any]) -> dict[str, list[int]]:
    """The ranks of each group by its name, as far as the dump tells."""
    config = dump.get("pg_config")
    groups = config.items() if isinstance(config, Mapping) else ()
    return {str(name): ranks_in(group.get("ranks")) for name, group in groups if isinstance(group, Mapping)}


def _groups(
    dump: Mapping[str, Any],
    entries: list[Mapping[str, Any]],
    made: Mapping[str, int],
    members: Mapping[str, list[int]],
    target: RunTarget,
    rank: int,
) -> None:
    """One row of `process_groups` for each group that the dump names: its ranks, and how many calls were made in it."""
    status = dump.get("pg_status")
    status = status if isinstance(status, Mapping) else {}
    config = dump.get("pg_config")
    named: dict[str, tuple[str | None, list[int]]] = {}
    for name, about in config.items() if isinstance(config, Mapping) else ():
        if name and isinstance(about, Mapping):
            group = group_of((name, about.get("desc")), members)
            named[group] = (None, members.get(str(name), []))
    for entry in entries:
        if entry.get("is_p2p") is True:
            continue
        pair = entry.get("process_group")
        number = natural(entry.get("pg_id"))
        name = str(pair[0]) if isinstance(pair, list | tuple) and pair else ""
        named[group_of(pair, members)] = (None if number is None else str(number), members.get(name, []))
    # entries are a ring: a group without any is one in which no call was made only where nothing has fallen out
    whole = not entries or natural(entries[0].get("record_id")) == 0
    for group, (number, ranks) in named.items():
        told = status.get(number) if number is not None else None
        about = told if isinstance(told, Mapping) else {}
        enqueued = natural(about.get("last_enqueued_collective"))
        calls = max(made.get(group, 0), enqueued or 0)
        target.add(
            "process_groups",
            {
                "rank": rank,
                "group": group,
                "ranks": ranks or None,
                "calls": calls if calls or whole else None,
                "completed": natural(about.get("last_completed_collective")),
            },
        )


def _rank(path: Path, dump: Mapping[str, Any], target: RunTarget) -> int:
    """The rank that the dump tells, else the number that ends the file's name, else the first of which there is nothing."""
    told = dump.get("rank")
    found = re.search(r"(\d{1,6})$", path.name.split(".")[0])
    for rank in (told, int(found[1]) if found else None):
        if isinstance(rank, int) and 0 <= rank < _MOST_RANKS and rank not in target.calls.ranks:
            return rank
    return next(rank for rank in range(len(target.calls.ranks) + 1) if rank not in target.calls.ranks)
