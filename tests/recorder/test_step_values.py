"""The rows of a step as one value of the journal: nothing is lost or seen twice on its way into the tables."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firstfault.recorder.base.errors import CompactionError
from firstfault.recorder.storage.compaction import KEPT_SUFFIX, compact
from firstfault.recorder.storage.journal import JournalWriter
from firstfault.recorder.storage.segments import read_rows
from firstfault.schemas import TABLES
from firstfault.schemas.files.layout import part_path, parts, segment_path, segments
from firstfault.schemas.files.parts import TORN_KEY
from firstfault.schemas.files.segments import read_records
from firstfault.schemas.files.step_values import STEP_VALUES, batch_of, message_of, tables_of

STAT = {"microbatch": 0, "phase": 3, "numel": 4, "nan_count": 0, "inf_count": 0, "missing": False}


def stats(step, tensors):
    return [{**STAT, "rank": 0, "step": step, "seq": i, "tensor_id": i, "sum_sq": 0.5} for i in range(tensors)]


def rows(step):
    return {
        "metrics": [{"rank": 0, "step": step, "time_ns": step, "name": f"m{i}", "value": 0.5 * i} for i in range(2)],
        "tensor_stats": stats(step, 3),
        "steps": [{"rank": 0, "step": step, "completed": True, "stepped": True, "loss": float("nan")}],
    }


def journal(run, steps, rotate_at=(), full=()):
    """Every step of ``full`` has its statistics as columns of their own, as one in which everything is measured."""
    writer = JournalWriter(run, 0)
    for step in steps:
        if step in rotate_at:
            writer.rotate()
        values = rows(step)
        batches = {}
        if step in full:
            del values["tensor_stats"]
            table = TABLES["tensor_stats"].schema
            batches["tensor_stats"] = pa.RecordBatch.from_pylist(stats(step, 40), table)
        writer.append({**batches, STEP_VALUES: batch_of(values)})
    writer.close()


def counted(run):
    return {name: read_rows(run, name, ["step"]).num_rows for name in ("steps", "metrics", "tensor_stats")}


def test_a_row_of_every_table_comes_back_as_it_was():
    example = {"int8": 7, "int32": -7, "int64": 1 << 40, "double": 0.1, "bool": True, "string": "é\n", "float": 0.5}
    for table in TABLES.values():
        row = {
            f.name: [3, 1 << 40] if pa.types.is_list(f.type) else example[str(f.type)]
            for f in table.schema
            if not (pa.types.is_list(f.type) and f.type.value_type != pa.int64())
        }
        batch = batch_of({table.name: [row, {}]})
        found, misfits = tables_of(pa.Table.from_batches([batch]))
        assert misfits == 0
        assert found[table.name].schema.equals(table.schema)
        nothing = dict.fromkeys(table.schema.names)
        assert found[table.name].to_pylist() == [{**nothing, **row}, nothing]


@pytest.mark.parametrize("length", [0, 1, 55, 63, 64, 65, 1000, 1007, 70_000])
def test_a_message_is_what_arrow_writes(length):
    for letter in "ab":  # the second is put into the frame of the first
        rows = {"events": [{"message": letter * length}]}
        assert message_of(rows) == batch_of(rows).serialize().to_pybytes()


def test_columns_and_values_of_the_same_steps_become_one_part_of_each_table(tmp_path):
    journal(tmp_path, range(12), rotate_at=(5,), full=(0, 7))
    expected = {"steps": 12, "metrics": 24, "tensor_stats": 10 * 3 + 2 * 40}
    assert counted(tmp_path) == expected
    compact(tmp_path, finished=False)
    assert counted(tmp_path) == expected
    assert {(name, index) for _, name, index, _ in segments(tmp_path)} == {(STEP_VALUES, 1), ("tensor_stats", 1)}
    compact(tmp_path, finished=True)
    assert segments(tmp_path) == []
    assert counted(tmp_path) == expected
    assert [len(parts(tmp_path, name)) for name in expected] == [2, 2, 2]


def test_a_segment_that_is_cut_anywhere_holds_whole_steps_and_says_how_much_is_missing(tmp_path):
    journal(tmp_path / "whole", range(20))
    raw = segment_path(tmp_path / "whole", 0, STEP_VALUES, 0).read_bytes()
    random_ = random.Random(0)
    for case in range(8):
        run = tmp_path / str(case)
        path = segment_path(run, 0, STEP_VALUES, 0)
        path.parent.mkdir(parents=True)
        path.write_bytes(raw[: random_.randrange(400, len(raw))])
        steps = read_rows(run, "steps", ["step"])["step"].to_pylist()
        assert steps == list(range(len(steps)))
        before = counted(run)
        assert before == {"steps": len(steps), "metrics": 2 * len(steps), "tensor_stats": 3 * len(steps)}
        compact(run, finished=True)
        assert counted(run) == before
        torn = pq.ParquetFile(part_path(run, 0, "steps", 0)).schema_arrow.metadata[TORN_KEY]
        assert 0 <= int(torn) < len(raw) / 10


def test_many_small_records_are_put_together_as_they_are_read_and_a_bad_one_costs_itself(tmp_path):
    writer = JournalWriter(tmp_path, 0)
    for step in range(5000):
        writer.append(
            {STEP_VALUES: {"metrics": [{"rank": 0, "step": step, "time_ns": 0, "name": "loss", "value": 0.5}]}}
        )
    writer.close()
    raw = bytearray(segment_path(tmp_path, 0, STEP_VALUES, 0).read_bytes())
    whole = read_records(bytes(raw))
    assert (whole.complete, whole.lost, whole.table.num_rows) == (5000, 0, 5000)
    assert whole.table.column("rows").num_chunks == 5  # of 1,024 records: a batch of each would take half a gigabyte
    assert len(whole.marks) == 1
    raw[raw.index(b"loss", len(raw) // 2)] ^= 1
    cut = read_records(bytes(raw[:-200]))
    assert (cut.complete, cut.lost, cut.table.num_rows) == (4998, 1, 4998)
    assert cut.torn_bytes > 0
    before, left = (t.column("rows").to_pylist() for t in (whole.table, cut.table))
    assert left == [row for row in before[:-1] if row in set(left)]


def test_a_crash_between_the_parts_and_the_removal_counts_no_row_twice(tmp_path):
    journal(tmp_path, range(6), full=(2,))
    saved = {path: path.read_bytes() for *_, path in segments(tmp_path)}
    expected = counted(tmp_path)
    compact(tmp_path, finished=True)
    for path, raw in saved.items():
        path.write_bytes(raw)
    assert counted(tmp_path) == expected
    compact(tmp_path, finished=True)
    assert segments(tmp_path) == []
    assert counted(tmp_path) == expected


def test_values_stay_in_the_journal_until_the_last_of_their_tables_has_its_part(tmp_path):
    journal(tmp_path, range(6))
    expected = counted(tmp_path)
    blocked = tmp_path / "metrics"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(CompactionError, match="metrics"):
        compact(tmp_path, finished=True)
    assert [name for _, name, _, _ in segments(tmp_path)] == [STEP_VALUES]
    assert counted(tmp_path)["steps"] == 6
    blocked.unlink()
    compact(tmp_path, finished=True)
    assert segments(tmp_path) == []
    assert counted(tmp_path) == expected


def test_a_segment_with_a_value_that_fits_nowhere_is_kept_beside_its_parts(tmp_path):
    writer = JournalWriter(tmp_path, 0)
    writer.append({STEP_VALUES: batch_of({"steps": [{"rank": 0, "step": 0, "loss": "high"}]})})
    writer.close()
    path = segment_path(tmp_path, 0, STEP_VALUES, 0)
    raw = path.read_bytes()
    compact(tmp_path, finished=True)
    assert counted(tmp_path)["steps"] == 1
    assert segments(tmp_path) == []
    assert path.with_suffix(KEPT_SUFFIX).read_bytes() == raw
