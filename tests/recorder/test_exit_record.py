"""exit.json says how a run ended, from real wait statuses and files as the ranks leave them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from firstfault.recorder.storage.journal import JournalWriter
from firstfault.recorder.supervisor.exit_record import MemoryWitness, build_exit
from firstfault.schemas import TABLES, BreadcrumbWriter, ExceptionRecord, Phase, read_exit, write_json
from firstfault.schemas.files.layout import breadcrumb_path, exception_path, native_stack_path

CALM = MemoryWitness(used_bytes=50, limit_bytes=100, peak_bytes=60, oom_kills=0)


def _status(text: str) -> int:
    """Wait status of a real process."""
    process = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.DEVNULL)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = 0
    return status


@pytest.fixture(scope="module")
def statuses():
    kill = "import os, signal, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), {})"
    return {"ok": 0, "1": _status("raise SystemExit(1)")} | {
        n: _status(kill.format(int(getattr(signal, n)))) for n in ("SIGKILL", "SIGABRT")
    }


def _exception(run: Path, type_: str, rank: int = 0, when_ns: int = 0) -> None:
    path = exception_path(run, rank)
    path.write_bytes(msgspec.json.encode(ExceptionRecord(type=type_, message="m", traceback="t", rank=rank)))
    if when_ns:
        os.utime(path, ns=(when_ns, when_ns))


def test_a_kill_with_memory_to_spare_is_a_signal(tmp_path, statuses):
    exit_ = build_exit(tmp_path, statuses["SIGKILL"], CALM)
    assert (exit_.status, exit_.signal, exit_.signal_name, exit_.note) == ("signal", 9, "SIGKILL", None)


@pytest.mark.parametrize(
    ("memory", "status"),
    [
        (MemoryWitness(used_bytes=50, limit_bytes=100, oom_kills=1), "oom"),
        (MemoryWitness(used_bytes=97, limit_bytes=100, oom_kills=None), "oom"),
        (MemoryWitness(used_bytes=97, limit_bytes=100, oom_kills=0), "oom"),
        (MemoryWitness(used_bytes=96, limit_bytes=100, oom_kills=0), "signal"),
        (MemoryWitness(), "signal"),
    ],
)
def test_a_kill_at_the_memory_limit_is_oom_and_the_note_gives_the_number(tmp_path, statuses, memory, status):
    exit_ = build_exit(tmp_path, statuses["SIGKILL"], memory)
    assert exit_.status == status
    assert (exit_.note is not None) == (status == "oom")


def test_an_abort_at_the_memory_limit_is_still_a_signal(tmp_path, statuses):
    exit_ = build_exit(tmp_path, statuses["SIGABRT"], MemoryWitness(used_bytes=99, limit_bytes=100))
    assert (exit_.status, exit_.signal_name) == ("signal", "SIGABRT")


@pytest.mark.parametrize("type_", ["torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError", "OutOfMemoryError"])
def test_a_device_without_memory_is_oom(tmp_path, statuses, type_):
    _exception(tmp_path, type_)
    assert build_exit(tmp_path, statuses["1"], CALM).status == "oom"


def test_the_rank_that_died_first_gives_the_exception(tmp_path, statuses):
    _exception(tmp_path, "ConnectionError", rank=0, when_ns=2_000_000_000)
    _exception(tmp_path, "ValueError", rank=3, when_ns=1_000_000_000)
    exit_ = build_exit(tmp_path, statuses["1"], CALM)
    assert exit_.exception is not None
    assert (exit_.status, exit_.exception.type, exit_.exception.rank) == ("exception", "ValueError", 3)


def test_an_exception_that_the_script_survived_is_a_note(tmp_path, statuses):
    _exception(tmp_path, "ValueError", rank=1)
    exit_ = build_exit(tmp_path, statuses["ok"], CALM)
    assert (exit_.status, exit_.exit_code, exit_.exception) == ("completed", 0, None)
    assert exit_.note is not None
    assert "ValueError" in exit_.note


def test_a_half_written_exception_file_does_not_hide_the_end(tmp_path, statuses):
    exception_path(tmp_path, 0).write_bytes(b'{"type": "Val')
    exit_ = build_exit(tmp_path, statuses["1"], CALM)
    assert exit_.exception is not None
    assert exit_.exception.type == "SystemExit"


def test_the_module_in_flight_is_named_and_the_file_reads_back(tmp_path, statuses):
    schema = TABLES["modules"].schema
    rows = [{"rank": 0, "module_id": 4, "module": name} for name in ("old name", "blocks.0.\n<script>名🔥\"'")]
    writer = JournalWriter(tmp_path, 0)
    writer.append({"modules": pa.RecordBatch.from_pylist(rows, schema)})
    writer.close()
    crumb = BreadcrumbWriter(breadcrumb_path(tmp_path, 0), 77)
    crumb.note(123, 12, 1, Phase.BACKWARD, 4)
    native_stack_path(tmp_path, 0).parent.mkdir()
    native_stack_path(tmp_path, 0).write_text("Fatal Python error: Segmentation fault\n")
    native_stack_path(tmp_path, 1).write_text("")
    write_json(tmp_path / "exit.json", build_exit(tmp_path, statuses["SIGABRT"], CALM))
    exit_ = read_exit(tmp_path)
    assert exit_ is not None
    position = exit_.last_positions[0]
    assert (position.pid, position.step, position.microbatch, position.phase) == (77, 12, 1, "backward")
    assert position.module == "blocks.0.\n<script>名🔥\"'"
    assert exit_.native_stack == "rank=0000\nFatal Python error: Segmentation fault"
    assert exit_.recorded_ranks == 1


def test_the_assertion_of_a_kernel_is_read_from_the_output(tmp_path: Path, statuses) -> None:
    line = (
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1255: indexSelectSmallIndex: block: [0,0,0], thread: [{},0,0] "
    )
    (tmp_path / "output.log").write_text(
        "step 3\n" + "".join(line.format(i) + "Assertion `srcIndex < srcSelectDimSize` failed.\n" for i in range(32))
    )
    assert (
        build_exit(tmp_path, statuses["1"], CALM).device_assertion
        == "indexSelectSmallIndex: srcIndex < srcSelectDimSize"
    )
    (tmp_path / "output.log").write_text("AssertionError: Assertion `x` failed\n")
    assert build_exit(tmp_path, statuses["1"], CALM).device_assertion is None
