"""Overlapping calls are found while events pass by, however the file is cut into pieces."""

import random

import duckdb
import pyarrow as pa
import pytest
from firstfault.analyzer.importers.nesting import HOST, SLACK_NS, Nesting
from firstfault.analyzer.importers.trace_checks import _OVERLAP


def events(seed: int, count: int) -> pa.Table:
    """Calls of three threads in the order of their begin, some of which cross each other, with other events between."""
    draw = random.Random(seed)
    rows, at = [], {"1": 0, "2": 0, "3": 0}
    for _ in range(count):
        tid = draw.choice("123")
        at[tid] += draw.choice((0, 500, 3_000, 20_000))
        rows.append(
            (tid, at[tid], draw.choice((0, 1_000, 5_000, 40_000)), draw.choice((*HOST, "kernel")), draw.choice("XXXXi"))
        )
    rows.sort(key=lambda r: (r[1], -r[2]))
    tid, ts, dur, cat, ph = map(list, zip(*rows, strict=True))
    columns = {"ph": ph, "cat": cat, "pid": ["7"] * count, "tid": tid, "ts_ns": ts, "dur_ns": dur}
    return pa.table({**columns, "event_id": list(range(count))})


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_as_many_as_a_query_over_all_of_them_finds(seed, size):
    table = events(seed, 400)
    nesting = Nesting()
    for first in range(0, 400, size):
        nesting.look(table.slice(first, size))
    host = ", ".join(f"'{name}'" for name in HOST)
    query = _OVERLAP.format(events="events", host=host, slack=SLACK_NS)
    relation = duckdb.connect().from_arrow(table)
    expected = relation.query("events", f"SELECT count(*), min(event_id) FROM ({query})").fetchall()  # noqa: S608 # own text
    assert nesting.ordered
    assert (nesting.overlapping, nesting.first) == expected[0]
    assert nesting.overlapping > 0


def test_events_out_of_order_are_left_to_the_query():
    table = events(0, 50)
    nesting = Nesting()
    nesting.look(table.slice(25))
    nesting.look(table.slice(0, 25))
    assert not nesting.ordered
