"""The journal: standard Arrow streams, whole after every append, honest when the disk is full."""

import resource
import sys
from pathlib import Path

import forked
import pyarrow as pa
import pytest
from firstfault.analyzer import Trace
from firstfault.recorder.storage.journal import JournalWriter
from firstfault.schemas import TABLES
from firstfault.schemas.files.layout import segment_path, segments

SCRIPT = Path(__file__).parent / "scripts" / "small_disk.py"


def batch(step: int) -> pa.RecordBatch:
    row = {"rank": 0, "step": step, "time_ns": 0, "name": "loss", "value": 1.5}
    return pa.RecordBatch.from_pylist([row], TABLES["metrics"].schema)


def test_any_arrow_reader_reads_a_segment_that_is_still_open(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, 0)
    for step in range(3):
        writer.append({"metrics": batch(step)})
    table = pa.ipc.open_stream(segment_path(tmp_path, 0, "metrics", 0).read_bytes()).read_all()
    assert table["step"].to_pylist() == [0, 1, 2]
    assert table.schema.metadata == TABLES["metrics"].schema.metadata


def test_all_tables_rotate_together(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, 3, most_bytes=1)
    writer.append({"metrics": batch(0)})
    writer.append({"metrics": batch(1)})
    assert [(rank, table, index) for rank, table, index, _ in segments(tmp_path)] == [
        (3, "metrics", 0),
        (3, "metrics", 1),
    ]


def test_a_segment_whose_schema_found_no_room_begins_with_it_once_there_is_some(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            writer.append({"metrics": batch(0)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    writer.append({"metrics": batch(1)})
    table = pa.ipc.open_stream(segment_path(tmp_path, 0, "metrics", 0).read_bytes()).read_all()
    assert table["step"].to_pylist() == [1]


def test_a_full_disk_drops_steps_and_says_so_but_the_training_goes_on(tmp_path: Path) -> None:
    plain = forked.run([sys.executable, SCRIPT], text=True, check=True)
    run = tmp_path / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--out", run, SCRIPT, "40000"]
    recorded = forked.run(command, text=True, check=True)

    assert recorded.stdout == plain.stdout
    assert recorded.stderr.count("[journal]") == 1
    with Trace(run) as trace:
        steps = trace.sql("SELECT step FROM steps WHERE stepped ORDER BY step")["step"].to_list()
        dropped = trace.sql("SELECT detail FROM events WHERE event = 'rows-dropped'")["detail"].to_list()
    assert steps[:20] == list(range(20))
    assert steps[-1] == 59
    assert len(steps) < 60
    assert dropped
