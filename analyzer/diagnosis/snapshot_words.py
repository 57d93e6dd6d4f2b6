"""What an imported snapshot of the allocator tells in a sentence a device: how much is held, by whom, and how it is cut up."""

from typing import Any

from ..language import say
from ..reading.trace import Trace

_DEVICES = """
WITH holders AS (
    SELECT rank, device, place, sum(bytes)::BIGINT AS bytes FROM memory_blocks
    WHERE source = 'cuda' AND category = 'allocated' GROUP BY ALL
), held AS (
    SELECT rank, device, arg_max(place, bytes) FILTER (place IS NOT NULL) AS place, max(bytes) FILTER (place IS NOT NULL) AS most,
        sum(bytes) FILTER (place IS NULL) AS unplaced
    FROM holders GROUP BY rank, device
)
SELECT d.*, bytes_in_words(d.reserved_bytes) AS reserved, bytes_in_words(d.allocated_bytes) AS allocated,
    bytes_in_words(d.peak_bytes) AS peak, bytes_in_words(d.free_bytes) AS free, bytes_in_words(d.split_bytes) AS split,
    h.place, bytes_in_words(h.most) AS place_bytes, bytes_in_words(h.unplaced) AS unplaced
FROM device_memory d LEFT JOIN held h ON h.rank = d.rank AND h.device = d.device ORDER BY d.rank, d.device
"""

_MOST = 4
"""Devices that are told of one by one."""


def snapshot_sentences(trace: Trace) -> list[str]:
    """A sentence for each device of the snapshots; none where there is no snapshot."""
    if not trace.has("memory_segments"):
        return []
    rows = trace.sql(_DEVICES).to_dicts()
    told = [_sentence(row) for row in rows[:_MOST]]
    if len(rows) > _MOST:
        told.append(say("{n} more devices", n=len(rows) - _MOST))
    return told


def _sentence(row: dict[str, Any]) -> str:
    words = say(
        "the allocator holds {reserved} of {device} (rank {rank}), {allocated} in use, at most {peak}, {free} free, of which"
        " {split} lies beside blocks in use",
        **{name: row[name] for name in ("reserved", "device", "rank", "allocated", "peak", "free", "split")},
    )
    if row["place"] is not None:
        words += say("; most is held by {place}, {bytes}", place=row["place"], bytes=row["place_bytes"])
    if row["unplaced"] is not None:
        words += say(
            "; the stacks of {bytes} show no line of a script, such as those of gradients and of what was there before the"
            " history began",
            bytes=row["unplaced"],
        )
    return words
