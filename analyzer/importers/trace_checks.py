"""What a trace says about itself, and whether it can be believed: looked at once, when it is imported.

A profiler that loses track shows it: kernels that run before they were launched, lengths below zero, calls on one thread that
overlap without one lying inside the other. Such events are kept; a row of `events` says how many there are.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import duckdb

from .nesting import HOST, SLACK_NS, Nesting

_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")

_NEGATIVE = "SELECT event_id FROM {events} WHERE dur_ns < 0"

_EARLY = """
SELECT k.event_id FROM {events} k
JOIN (
    SELECT correlation, min(ts_ns) AS ts_ns FROM {events}
    WHERE cat IN ('cuda_runtime', 'cuda_driver') AND correlation IS NOT NULL GROUP BY correlation
) r ON r.correlation = k.correlation
WHERE k.cat IN ({device}) AND k.ts_ns < r.ts_ns - {slack}
"""

_OVERLAP = """
SELECT event_id FROM (
    SELECT event_id, ts_ns, ts_ns + dur_ns AS end_ns, max(ts_ns + dur_ns) OVER before AS open_until
    FROM {events} WHERE ph = 'X' AND cat IN ({host}) AND dur_ns >= 0
    WINDOW before AS (PARTITION BY hash(pid, tid) ORDER BY ts_ns, dur_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) WHERE ts_ns < open_until - {slack} AND end_ns > open_until + {slack}
"""

_NAMED = "SELECT name, step FROM {events} WHERE event_id = $id"

_STEP_FACTS = """
SELECT step, sum(dur_ns) FILTER (starts_with(name, 'enumerate(DataLoader)#')) AS wait,
    sum(dur_ns) FILTER (starts_with(name, 'Optimizer.step#')) AS optimizer,
    count(*) FILTER (starts_with(name, 'Optimizer.step#')) AS optimizer_steps
FROM {events} WHERE cat = 'user_annotation' AND step IS NOT NULL GROUP BY step ORDER BY step
"""


class Doubt(NamedTuple):
    """A kind of event that cannot be true, and how many there are; ``step`` is that of the first."""

    what: str
    events: int
    first: str
    step: int | None


class StepFacts(NamedTuple):
    """What annotations say of one step, in ns; null where there are none."""

    step: int
    data_wait_ns: int | None
    optimizer_ns: int | None
    stepped: bool | None


_EVENTS = "read_parquet($part, hive_partitioning=false)"


def _list(names: Iterable[str]) -> str:
    """Own words as a list of SQL."""
    return ", ".join(f"'{name}'" for name in names)


def doubts(con: duckdb.DuckDBPyConnection, part: Path, nesting: Nesting) -> list[Doubt]:
    """Everything that cannot be as the trace has it; ``nesting`` has seen its events pass by."""
    of = {"part": str(part)}
    queries = {
        "have a length below zero": _NEGATIVE.format(events=_EVENTS),
        "run on the device before they were launched": _EARLY.format(
            events=_EVENTS, device=_list(_DEVICE), slack=SLACK_NS
        ),
    }
    overlap = "overlap another event of their thread without lying inside it"
    if not nesting.ordered:
        queries[overlap] = _OVERLAP.format(events=_EVENTS, host=_list(HOST), slack=SLACK_NS)
    counts = {
        what: con.execute(f"SELECT count(*), min(event_id) FROM ({query})", of).fetchall()[0]  # noqa: S608 # own text
        for what, query in queries.items()
    }
    counts.setdefault(overlap, (nesting.overlapping, nesting.first))
    found: list[Doubt] = []
    for what, (count, first) in counts.items():
        if count:
            named = con.execute(_NAMED.format(events=_EVENTS), of | {"id": first}).fetchall()[0]
            found.append(Doubt(what, count, str(named[0]), named[1]))
    return found


def step_facts(con: duckdb.DuckDBPyConnection, part: Path) -> list[StepFacts]:
    """Time in the loader and in optimizers by step, from torch's own annotations."""
    rows = con.execute(_STEP_FACTS.format(events=_EVENTS), {"part": str(part)}).fetchall()
    annotated = any(count for *_, count in rows)  # without these annotations nothing is known of optimizers
    return [
        StepFacts(step, _int(wait), _int(optimizer), count > 0 if annotated else None)
        for step, wait, optimizer, count in rows
    ]


def _int(value: int | None) -> int | None:
    return None if value is None else int(value)
