"""What a profile says of memory in a sentence a device: the most that was in use, when, and who asked for most of it."""

from typing import Any

from ..language import say
from ..reading.trace import Trace

_DEVICES = """
WITH owners AS (
    SELECT rank, device, owner, sum(change) AS bytes FROM memory_changes WHERE change > 0 AND owner IS NOT NULL GROUP BY ALL
)
SELECT m.rank, m.device, bytes_in_words(max(m.peak_bytes)) AS peak, arg_max(m.step, m.peak_bytes) AS step,
    bytes_in_words(sum(m.allocated_bytes)) AS allocated,
    (SELECT arg_max(o.owner, o.bytes) FROM owners o WHERE o.rank = m.rank AND o.device = m.device) AS owner,
    (SELECT bytes_in_words(max(o.bytes)) FROM owners o WHERE o.rank = m.rank AND o.device = m.device) AS owned
FROM profiled_memory m WHERE m.peak_bytes > 0 GROUP BY m.rank, m.device ORDER BY max(m.peak_bytes) DESC, m.rank, m.device
"""

_MOST = 3
"""Devices that are told of."""


def profile_memory_sentences(trace: Trace) -> list[str]:
    """A sentence for each of the fullest devices; none where a profile does not tell of memory."""
    if not trace.has("memory_events") and not trace.has("profiler_events"):
        return []
    return [_sentence(row) for row in trace.sql(_DEVICES).head(_MOST).to_dicts()]


def _sentence(row: dict[str, Any]) -> str:
    words = say(
        "at most {peak} of {device} were in use (rank {rank}), and {allocated} were asked for in all",
        **{name: row[name] for name in ("peak", "device", "rank", "allocated")},
    )
    if row["step"] is not None:
        words += say("; the peak is in step {step}", step=row["step"])
    if row["owner"] is not None:
        words += say("; most was asked for by {owner}, {owned}", owner=row["owner"], owned=row["owned"])
    return words
