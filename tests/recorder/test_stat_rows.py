"""Rows of tensor_stats stand in the order in which they were added, one by one or together."""

import math

import pytest
import torch
from firstfault.recorder.session.stat_rows import StatRows
from firstfault.recorder.tensors import native
from firstfault.recorder.tensors.moment_table import MomentTable
from firstfault.recorder.tensors.moments import EMPTY, Moments

ONE = Moments(1, 0, 0, 0, 2.0, 2.0, 2.0, 4.0)
HOSTILE = [torch.tensor([1.0, -3.0]), torch.full((2,), math.nan), torch.tensor([math.inf, 0.5]), torch.empty(0)]


@pytest.fixture
def table(need_library) -> MomentTable:
    assert native.library is not None
    return native.library.moments_of(HOSTILE)


def test_a_table_holds_what_single_moments_are(table):
    assert [tuple(map(str, m)) for m in table] == [tuple(map(str, native.library.moments(x))) for x in HOSTILE]
    assert list(table) == [table[i] for i in range(4)] == table[:]
    assert table[-1] == EMPTY
    assert math.isnan(table.norm)
    assert native.library.moments_of([HOSTILE[0], HOSTILE[2]]).norm == math.inf
    assert native.library.moments_of([HOSTILE[0], torch.tensor([2.0])]).norm == pytest.approx(math.sqrt(14))
    with pytest.raises(IndexError):
        table[4]


@pytest.mark.parametrize("before", [0, 1, 40])
def test_blocks_stand_where_they_were_added(table, before):
    rows, seq = StatRows(), iter(range(1000))
    for _ in range(before):
        rows.add(0, next(seq), 1, 7, ONE, False, True)
    rows.add_all(0, next(seq), 2, [1, 2, 3, 4], table, [True, True, False, None])
    for _ in range(3):
        next(seq)
    rows.add(1, next(seq), 3, 8, ONE, False, None)
    rows.move(rows.singles - 1, 4)
    rows.put(rows.singles - 1, ONE._replace(sum=5.0))
    rows.add_all(1, next(seq), 2, [5, 6, 7, 8], table, [None] * 4)

    found = rows.rows()
    assert len(rows) == len(found) == before + 9
    assert [row["seq"] for row in found] == list(range(before + 9))
    assert [row["tensor_id"] for row in found[before:]] == [1, 2, 3, 4, 8, 5, 6, 7, 8]
    assert [row["requires_grad"] for row in found[before : before + 4]] == [True, True, False, None]
    assert (found[before + 4]["phase"], found[before + 4]["sum"], found[before + 4]["microbatch"]) == (4, 5.0, 1)
    assert found[before + 1]["nan_count"] == 2
    assert found[before + 1]["min"] is None
    batch = rows.batch(0, 3)
    if before == 40:
        assert [{**row, "sum": str(row["sum"])} for row in batch.drop_columns(["rank", "step"]).to_pylist()] == [
            {**row, "sum": str(row["sum"])} for row in found
        ]
    else:
        assert batch is None
