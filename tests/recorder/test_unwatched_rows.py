"""The mapped file of the last rows of `unwatched_steps`: what is written is read, and what is damaged is said."""

import signal
import struct
import sys

import forked
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.storage.segments import completed_steps
from firstfault.schemas.files.layout import unwatched_rows_path
from firstfault.schemas.files.unwatched_rows import (
    CAPACITY,
    DAMAGED,
    SIZE,
    UnwatchedRow,
    UnwatchedRowsWriter,
    read_unwatched_rows,
    rows_after,
)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "breadcrumb").mkdir()
    return tmp_path / "breadcrumb" / "rank=0000.rows"


def written(path, count):
    writer = UnwatchedRowsWriter(path)
    made = [UnwatchedRow(4 * i + 3, 10**18 + i, 4, None if i % 3 == 1 else i / 7) for i in range(count)]
    for row in made:
        writer.put(row.step, row.time_ns, row.steps, row.loss)
    return made


@pytest.mark.parametrize("count", [0, 1, CAPACITY - 1, CAPACITY, CAPACITY + 1, 5 * CAPACITY + 3])
def test_the_last_rows_are_read_in_order(path, count):
    made = written(path, count)
    assert read_unwatched_rows(path) == (made[-CAPACITY:], None)
    assert path.stat().st_size == SIZE


def test_no_file_is_no_row(path):
    assert read_unwatched_rows(path) == ([], None)


def test_rows_follow_a_step_without_a_gap(path):
    made = written(path, 10)
    assert rows_after(made, 19) == made[5:]
    assert rows_after(made, -1) == made
    assert rows_after(made, made[-1].step) == []
    assert rows_after(made[2:], 3) == []  # what was between has been overwritten
    assert rows_after(made[:2] + made[3:], -1) == made[:2]


def test_every_changed_byte_of_a_row_and_of_the_head_is_noticed(path):
    made = written(path, 5)
    whole = path.read_bytes()
    for at in [*range(24), *range(64, 64 + 5 * 45)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        rows, problem = read_unwatched_rows(path)
        assert problem == DAMAGED
        assert all(row in made for row in rows)
        assert len(rows) == (0 if at < 24 else 4)


@pytest.mark.parametrize("size", [0, 7, 63, 64, 200, SIZE - 1])
def test_a_file_that_was_cut_is_noticed(path, size):
    written(path, 5)
    path.write_bytes(path.read_bytes()[:size])
    assert read_unwatched_rows(path) == ([], DAMAGED)


def test_a_stretch_of_zeros_is_noticed(path):
    made = written(path, 5)
    whole = path.read_bytes()
    path.write_bytes(whole[:150] + bytes(60) + whole[210:])
    rows, problem = read_unwatched_rows(path)
    assert problem == DAMAGED
    assert made[0] in rows
    assert made[4] in rows


SCRIPT = """
import mmap, os, signal, struct, sys
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
losses = open("losses", "wb", buffering=0)
for step in range(int(sys.argv[1])):
    loss = model(torch.randn(4, 8)).square().mean()
    losses.write(struct.pack("d", loss.item()))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
if sys.argv[2] == "killed":
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def quiet_losses(run):
    with Trace(run) as trace:
        return trace.sql("SELECT step, loss FROM unwatched_steps WHERE loss IS NOT NULL ORDER BY step").rows()


@pytest.mark.parametrize("steps", [1033])
def test_a_kill_of_everything_loses_no_loss_that_was_read(bench, steps):
    """Whatever the journal had taken: the last row that was made is known, with the loss that the script itself wrote down."""
    (bench.folder / "firstfault.toml").write_text('[run]\ngrace = "1ms"\n')
    bench.write(SCRIPT)
    process = bench.start("script.py", str(steps), "killed")
    assert process.wait() == -signal.SIGKILL
    run, true = bench.run, list(struct.iter_unpack("d", (bench.folder / "losses").read_bytes()))
    made, problem = read_unwatched_rows(unwatched_rows_path(run, 0))
    assert problem is None
    known = quiet_losses(run)
    assert len(known) > 50
    assert [loss for _, loss in known] == pytest.approx([true[step][0] for step, _ in known])
    assert known[-1][0] == max(row.step for row in made if row.loss is not None)
    assert completed_steps(run) == {0: steps}
    with Trace(run) as trace:
        verdict = diagnose(trace)
        assert trace.sql("SELECT sum(steps) FROM unwatched_steps").item() + trace.sql(
            "SELECT count(*) FROM steps WHERE completed"
        ).item() in range(steps - 15, steps + 1)
    assert verdict.run.steps_recorded == steps
    assert [c.name for c in verdict.causes] == ["host-lost"]

    # a resumed run keeps them: the mapped files of the first attempt go aside
    again = [sys.executable, "-m", "firstfault", "run", "--quiet", "--resume", str(run), "script.py", "3", "ended"]
    assert forked.run(again, cwd=bench.folder, env=bench.environment()).returncode == 0
    with Trace(run) as trace:
        assert trace.problems == []
        assert diagnose(trace).run.steps_recorded == steps + 3
    assert [row for row in quiet_losses(run) if row[0] <= known[-1][0]] == known


def test_a_run_that_ended_by_itself_leaves_no_such_file(bench):
    (bench.folder / "firstfault.toml").write_text('[run]\ngrace = "1ms"\n')
    bench.write(SCRIPT)
    recorded = bench.record("script.py", "1033", "ended")
    assert recorded.returncode == 0, recorded.stderr
    assert completed_steps(recorded.run) == {0: 1033}
    assert len(quiet_losses(recorded.run)) > 50
    assert not unwatched_rows_path(recorded.run, 0).exists()


def test_losses_that_were_damaged_are_told(bench):
    (bench.folder / "firstfault.toml").write_text('[run]\ngrace = "1ms"\n')
    bench.write(SCRIPT)
    process = bench.start("script.py", "1033", "killed")
    assert process.wait() == -signal.SIGKILL
    path = unwatched_rows_path(bench.run, 0)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with Trace(bench.run) as trace:
        assert DAMAGED in " ".join(p.what for p in trace.problems)
        assert diagnose(trace).run.steps_recorded == 1033


@pytest.mark.suite
def test_a_kill_in_the_first_of_these_steps_is_counted(bench):
    """No table has an unwatched step yet, and no loss of one has been read: the file says that the breadcrumb counts them."""
    bench.write(SCRIPT)
    process = bench.start("script.py", "40", "killed")
    assert process.wait() == -signal.SIGKILL
    (journal,) = (bench.run / "journal" / "rank=0000").glob("step_values-*")
    with Trace(bench.run) as trace:
        assert trace.sql("SELECT count(*) FROM unwatched_steps").item() == 0
    writer = UnwatchedRowsWriter(unwatched_rows_path(bench.run, 0))
    writer.put(39, 1, 0, None)
    crumb = bench.run / "breadcrumb" / "rank=0000.bin"
    raw = bytearray(crumb.read_bytes())
    assert raw.count(struct.pack("<q", 40)) >= 2
    crumb.write_bytes(raw.replace(struct.pack("<q", 40), struct.pack("<q", 47)))
    assert completed_steps(bench.run) == {0: 47}
    with Trace(bench.run) as trace:
        assert trace.problems == []
        assert diagnose(trace).run.steps_recorded == 47
    assert journal.exists()
