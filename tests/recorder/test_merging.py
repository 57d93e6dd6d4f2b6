"""Small parts become larger ones; cut off at any moment, every row is there once."""

import signal
import sys
from pathlib import Path

import forked
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firstfault.analyzer.reading.sources import find_sources, read_part
from firstfault.recorder.base.errors import CompactionError
from firstfault.recorder.storage.compaction import compact
from firstfault.recorder.storage.journal import JournalWriter
from firstfault.recorder.storage.merging import FANOUT, merge
from firstfault.recorder.storage.segments import completed_steps
from firstfault.schemas import TABLES
from firstfault.schemas.files.layout import merged_away, part_path, parts, segment_path

ROTATE = 3


def fill(run: Path, segments: int, rank: int = 0) -> int:
    """Segments of ROTATE steps each, all but the last made into parts; returns the number of steps."""
    writer = JournalWriter(run, rank)
    for step in range(segments * ROTATE):
        if step and step % ROTATE == 0:
            writer.rotate()
        stats = [{"rank": rank, "step": step, "seq": i, "tensor_id": 9 - i, "numel": 4, "sum": 1.0} for i in range(5)]
        writer.append(
            {
                "tensor_stats": pa.RecordBatch.from_pylist(stats, TABLES["tensor_stats"].schema),
                "steps": pa.RecordBatch.from_pylist(
                    [{"rank": rank, "step": step, "completed": True, "loss": float(step)}], TABLES["steps"].schema
                ),
            }
        )
    writer.close()
    compact(run, finished=False)
    return segments * ROTATE


def read(run: Path, table: str) -> list[tuple[int, int]]:
    """What the analyzer finds: (step, tensor_id or rank) of every row."""
    sources, problems = find_sources(run, ended=True)
    assert problems == []
    source = sources[table]
    found = [read_part(path, source.table, columns) for path, columns in source.parts] + source.journal
    second = "tensor_id" if table == "tensor_stats" else "rank"
    return sorted(pair for t in found for pair in zip(t["step"].to_pylist(), t[second].to_pylist(), strict=True))


def test_neighbours_of_one_size_are_merged_and_the_rest_waits(tmp_path: Path) -> None:
    steps = fill(tmp_path, 2 * FANOUT + 4)
    before = {t: read(tmp_path, t) for t in ("steps", "tensor_stats")}
    merge(tmp_path)
    ranges = [(p.first, p.last) for p in parts(tmp_path, "steps")]
    assert ranges == [(0, FANOUT - 1), (FANOUT, 2 * FANOUT - 1), *((i, i) for i in range(2 * FANOUT, 2 * FANOUT + 3))]
    assert {t: read(tmp_path, t) for t in before} == before
    assert completed_steps(tmp_path) == {0: steps}


def test_replaced_parts_stay_for_readers_and_go_at_the_end(tmp_path: Path) -> None:
    fill(tmp_path, FANOUT + 1)
    before = read(tmp_path, "steps")
    merge(tmp_path)
    assert len(merged_away(tmp_path, "steps")) == FANOUT
    compact(tmp_path, finished=True)
    merge(tmp_path, finished=True)
    assert merged_away(tmp_path, "steps") == []
    assert [(p.first, p.last) for p in parts(tmp_path, "steps")] == [(0, FANOUT)]
    assert [path.name for path in (tmp_path / "steps" / "rank=0000").iterdir()] == [f"part-000000-{FANOUT:06d}.parquet"]
    assert read(tmp_path, "steps") == before


def test_a_merged_part_is_sorted_by_tensor_then_step_like_every_other(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    compact(tmp_path, finished=True)
    merge(tmp_path, finished=True)
    (part,) = parts(tmp_path, "tensor_stats")
    rows = pq.read_table(part.path).select(["tensor_id", "step"]).to_pylist()
    assert rows == sorted(rows, key=lambda r: (r["tensor_id"], r["step"]))
    assert len(rows) == 3 * ROTATE * 5


def test_a_segment_that_could_not_become_a_part_is_never_hidden_by_a_merged_one(tmp_path: Path) -> None:
    fill(tmp_path, FANOUT + 2)
    part = part_path(tmp_path, 0, "steps", 3)
    rows = pq.read_table(part)
    part.unlink()
    writer = JournalWriter(tmp_path / "other", 0)
    writer.append({"steps": rows.replace_schema_metadata(TABLES["steps"].schema.metadata).to_batches()[0]})
    writer.close()
    segment = segment_path(tmp_path, 0, "steps", 3)
    segment.parent.mkdir(parents=True, exist_ok=True)
    segment_path(tmp_path / "other", 0, "steps", 0).rename(segment)
    before = read(tmp_path, "steps")
    merge(tmp_path)
    assert read(tmp_path, "steps") == before
    assert len(before) == (FANOUT + 2) * ROTATE


def test_parts_of_earlier_attempts_are_not_touched(tmp_path: Path) -> None:
    fill(tmp_path, 6)
    compact(tmp_path, finished=True)
    merge(tmp_path, first=4, finished=True)
    assert [(p.first, p.last) for p in parts(tmp_path, "steps")] == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 5)]


def test_ranks_are_not_mixed(tmp_path: Path) -> None:
    for rank in (0, 1):
        fill(tmp_path, 4, rank)
    compact(tmp_path, finished=True)
    merge(tmp_path, finished=True)
    assert [(p.rank, p.first, p.last) for p in parts(tmp_path, "steps")] == [(0, 0, 3), (1, 0, 3)]


def test_a_damaged_part_is_left_for_the_reader_to_report(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    compact(tmp_path, finished=True)
    part = part_path(tmp_path, 0, "steps", 1)
    part.write_bytes(part.read_bytes()[:-9])
    merge(tmp_path, finished=True)
    assert [(p.first, p.last) for p in parts(tmp_path, "steps")] == [(0, 0), (1, 1), (2, 3)]


def test_a_disk_that_refuses_leaves_all_as_it_was(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    compact(tmp_path, finished=True)
    before = read(tmp_path, "steps")
    (tmp_path / "steps" / "rank=0000" / "part-000000-000003.parquet.tmp").mkdir()  # nothing can be written there
    with pytest.raises(CompactionError, match="stay as they are"):
        merge(tmp_path, finished=True)
    assert read(tmp_path, "steps") == before
    assert len(parts(tmp_path, "tensor_stats")) == 1


CALLS = ("fsync", "rename", "unlink")
"""System calls between which a merge can be cut off."""

DYING = """
import os, signal, sys
from pathlib import Path
from firstfault.recorder.storage.merging import merge
run, left = Path(sys.argv[1]), int(sys.argv[2])

def dying(original):
    def call(*args, **kwargs):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return original(*args, **kwargs)
    return call

for name in sys.argv[3].split(","):
    setattr(os, name, dying(getattr(os, name)))
merge(run, finished=True)
"""


def test_killed_before_every_system_call_no_row_is_lost_or_seen_twice(tmp_path: Path) -> None:
    dying = tmp_path / "dying.py"
    dying.write_text(DYING)
    for survived in range(100):
        run = tmp_path / str(survived)
        fill(run, 3)
        compact(run, finished=True)
        before = {t: read(run, t) for t in ("steps", "tensor_stats")}
        done = forked.run([sys.executable, dying, run, str(survived), ",".join(CALLS)])
        assert {t: read(run, t) for t in before} == before, f"cut off before call {survived}"
        if done.returncode == 0:
            assert survived > 6, "the calls were not intercepted"
            break
        assert done.returncode == -signal.SIGKILL
        merge(run, finished=True)  # whoever comes next finishes it
        assert {t: read(run, t) for t in before} == before
        assert [(p.first, p.last) for p in parts(run, "steps")] == [(0, 2)]
        assert list(run.rglob("*.tmp")) == []
    else:
        pytest.fail("the merge never came to its end")


def test_a_reader_that_meets_a_vanished_segment_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 2)
    from firstfault.analyzer.reading import sources

    original, moved = sources.parts, []

    def parts_then_compaction(run: Path, table: str) -> object:
        found = original(run, table)
        if table == "steps" and not moved:
            moved.append(compact(run, finished=True))
        return found

    monkeypatch.setattr(sources, "parts", parts_then_compaction)
    assert len(read(tmp_path, "steps")) == 2 * ROTATE
    assert moved
