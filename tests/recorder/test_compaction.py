"""Segments become parts; at every moment each complete row is in a part or in the journal."""

import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firstfault.recorder.base.errors import CompactionError
from firstfault.recorder.storage.compaction import compact
from firstfault.recorder.storage.journal import JournalWriter
from firstfault.recorder.storage.segments import completed_steps, read_rows, read_segment
from firstfault.schemas import SCHEMA_VERSION, TABLES, VERSION_KEY, BreadcrumbWriter
from firstfault.schemas.files.layout import breadcrumb_path, part_path, parts, segment_path, segments
from firstfault.schemas.files.parts import TORN_KEY

TENSORS = 7


def _batches(step):
    """Rows of one step, in the order of capture: tensor ids run backwards."""
    stats = [
        {"rank": 0, "step": step, "microbatch": 0, "seq": i, "phase": 1, "tensor_id": TENSORS - i, "numel": 4}
        | {"nan_count": 0, "inf_count": 0, "min": -step * 0.5, "max": 1.5, "sum": 1.0, "sum_sq": 2.0, "missing": False}
        for i in range(TENSORS)
    ]
    steps = [{"rank": 0, "step": step, "completed": True, "stepped": True, "loss": float("nan")}]
    return {
        "tensor_stats": pa.RecordBatch.from_pylist(stats, TABLES["tensor_stats"].schema),
        "steps": pa.RecordBatch.from_pylist(steps, TABLES["steps"].schema),
    }


def _journal(run: Path, steps: range, rotate_at: tuple[int, ...] = (), rank: int = 0) -> None:
    writer = JournalWriter(run, rank)
    for step in steps:
        if step in rotate_at:
            writer.rotate()
        writer.append(_batches(step))
    writer.close()


def test_a_segment_in_use_is_left_alone_and_an_older_one_becomes_a_part(tmp_path):
    _journal(tmp_path, range(10), rotate_at=(4,))
    assert compact(tmp_path, finished=False) == 2
    assert [(part.rank, part.first) for part in parts(tmp_path, "steps")] == [(0, 0)]
    assert {(table, index) for _, table, index, _ in segments(tmp_path)} == {("steps", 1), ("tensor_stats", 1)}
    assert completed_steps(tmp_path) == {0: 10}


def test_after_the_end_everything_is_in_parts_and_every_row_is_what_was_written(tmp_path):
    _journal(tmp_path, range(10), rotate_at=(4,))
    before = read_rows(tmp_path, "tensor_stats", TABLES["tensor_stats"].schema.names)
    compact(tmp_path, finished=True)
    assert segments(tmp_path) == []
    after = read_rows(tmp_path, "tensor_stats", TABLES["tensor_stats"].schema.names)
    order = [("step", "ascending"), ("seq", "ascending")]
    assert after.sort_by(order).equals(before.sort_by(order))
    assert compact(tmp_path, finished=True) == 0


def test_a_part_of_statistics_is_sorted_by_tensor_then_step_and_can_be_pruned(tmp_path):
    _journal(tmp_path, range(20))
    compact(tmp_path, finished=True)
    file = pq.ParquetFile(part_path(tmp_path, 0, "tensor_stats", 0))
    rows = file.read(["tensor_id", "step"]).to_pylist()
    assert [(r["tensor_id"], r["step"]) for r in rows] == [(t, s) for t in range(1, TENSORS + 1) for s in range(20)]
    group = file.metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert (columns["step"].statistics.min, columns["step"].statistics.max) == (0, 19)
    assert columns["sum"].compression == "ZSTD"
    metadata = file.schema_arrow.metadata
    assert metadata[VERSION_KEY] == str(SCHEMA_VERSION).encode()
    assert metadata[TORN_KEY] == b"0"


@pytest.mark.parametrize("seed", range(5))
def test_a_journal_cut_anywhere_gives_every_complete_step(tmp_path, seed):
    rng = random.Random(seed)
    _journal(tmp_path, range(6))
    path = segment_path(tmp_path, 0, "steps", 0)
    ends = _message_ends(path)
    for case in range(40):
        cut = rng.randrange(path.stat().st_size + 1) if case else 0
        copy = tmp_path / f"cut-{case}"
        target = segment_path(copy, 0, "steps", 0)
        target.parent.mkdir(parents=True)
        target.write_bytes(path.read_bytes()[:cut])
        whole = [end for end in ends if end <= cut]
        compact(copy, finished=True)
        file = pq.ParquetFile(part_path(copy, 0, "steps", 0))
        assert file.read(["step"])["step"].to_pylist() == list(range(max(0, len(whole) - 1)))
        assert int(file.schema_arrow.metadata[TORN_KEY]) == cut - (whole[-1] if whole else 0)


def _message_ends(path: Path) -> list[int]:
    """Offsets at which the schema and each batch end, by the framing of the Arrow IPC format itself."""
    with pa.OSFile(str(path)) as source:
        ends: list[int] = []
        while True:
            try:
                pa.ipc.read_message(source)
            except EOFError:
                return ends
            ends.append(source.tell())


def test_a_tail_of_zeros_as_a_power_cut_leaves_it_is_cut(tmp_path):
    _journal(tmp_path, range(3))
    path = segment_path(tmp_path, 0, "steps", 0)
    with path.open("ab") as file:
        file.write(bytes(4096))
    segment = read_segment(path, "steps")
    assert segment.table["step"].to_pylist() == [0, 1, 2]
    assert segment.torn_bytes == 4096


def test_a_crash_between_part_and_removal_counts_no_row_twice(tmp_path):
    _journal(tmp_path, range(5))
    segment = segment_path(tmp_path, 0, "steps", 0)
    raw = segment.read_bytes()
    compact(tmp_path, finished=True)
    segment.write_bytes(raw)
    assert completed_steps(tmp_path) == {0: 5}
    assert read_rows(tmp_path, "steps", ["step"]).num_rows == 5
    compact(tmp_path, finished=True)
    assert not segment.exists()


def test_a_half_written_part_of_an_earlier_crash_is_replaced(tmp_path):
    _journal(tmp_path, range(5))
    part = part_path(tmp_path, 0, "steps", 0)
    part.parent.mkdir(parents=True)
    part.with_suffix(".parquet.tmp").write_bytes(b"PAR1 half")
    compact(tmp_path, finished=True)
    assert [p.name for p in part.parent.iterdir()] == [part.name]


def test_a_full_disk_loses_nothing_and_the_next_try_succeeds(tmp_path):
    _journal(tmp_path, range(200))
    script = f"""
import resource
from pathlib import Path
from firstfault.recorder.storage.compaction import compact
from firstfault.recorder.base.errors import CompactionError
resource.setrlimit(resource.RLIMIT_FSIZE, (600, {resource.RLIM_INFINITY}))
try:
    compact(Path({str(tmp_path)!r}), finished=True)
except CompactionError as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "stay in the journal" in done.stdout
    assert parts(tmp_path, "tensor_stats") == []
    assert list(tmp_path.rglob("*.tmp")) == []
    assert completed_steps(tmp_path) == {0: 200}
    compact(tmp_path, finished=True)
    assert completed_steps(tmp_path) == {0: 200}
    assert segments(tmp_path) == []


def test_one_part_that_cannot_be_written_does_not_stop_the_others(tmp_path):
    _journal(tmp_path, range(5))
    (tmp_path / "steps").write_text("a file where the folder should be")
    with pytest.raises(CompactionError, match="steps"):
        compact(tmp_path, finished=True)
    assert len(parts(tmp_path, "tensor_stats")) == 1
    assert [table for _, table, _, _ in segments(tmp_path)] == ["steps"]


def test_a_rank_that_outlives_the_script_keeps_its_open_segment(tmp_path):
    _journal(tmp_path, range(5), rank=1)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    crumb = BreadcrumbWriter(breadcrumb_path(tmp_path, 1), other.pid)
    crumb.note(1, 4, 0, 1, -1)
    assert compact(tmp_path, finished=True) == 0
    assert len(segments(tmp_path)) == 2
    other.communicate(b"\n")
    assert compact(tmp_path, finished=True) == 2


def test_in_its_own_process_a_finished_recording_is_compacted(tmp_path):
    _journal(tmp_path, range(5))
    BreadcrumbWriter(breadcrumb_path(tmp_path, 0), os.getpid()).note(1, 4, 0, 1, -1)
    assert compact(tmp_path, finished=True) == 2
