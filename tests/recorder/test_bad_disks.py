"""A folder that turns read-only, a disk that is slow: the training ends as it would have, and the recording says what is
missing. (A full disk: test_supervise.py and test_journal.py.)"""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.schemas.files.layout import EXIT_JSON

SCRIPT = Path(__file__).parent / "scripts" / "many_steps.py"
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


def obey_permissions() -> None:
    """Even as root: what is executed from here on may not write where the permissions forbid it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def set_writable(run: Path, mode: int) -> None:
    for folder in (run, *(p for p in run.rglob("*") if p.is_dir())):
        folder.chmod(mode)


def causes(trace: Trace) -> list[tuple[str, str]]:
    return [(f.name, f.severity) for f in diagnose(trace).causes]


@pytest.mark.suite
def test_a_folder_that_turns_read_only_leaves_the_training_alone_and_still_tells_its_end(
    bench: Any, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    plain = bench.plain(str(SCRIPT))
    progress = bench.folder / "progress"
    process = subprocess.Popen(
        bench.command(str(SCRIPT), str(progress), options=["--budget", "off"]),  # every step is watched
        cwd=bench.folder,
        env=bench.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=obey_permissions,  # noqa: PLW1509
    )
    wait_for(lambda: progress.exists() and progress.read_text() not in {"", "0"})
    set_writable(bench.run, 0o555)
    out, err = process.communicate(timeout=120)
    set_writable(bench.run, 0o755)

    assert process.returncode == 3
    assert out == plain.stdout
    assert b"Traceback" not in err
    assert b"[compaction]" in err
    assert not (bench.run / EXIT_JSON).exists()
    with Trace(bench.run) as trace:
        assert trace.exit is not None
        assert (trace.exit.status, trace.exit.exit_code) == ("exception", 3)
        # files that were open go on; nothing is missing
        assert trace.sql("SELECT step FROM steps WHERE completed ORDER BY step")["step"].to_list() == list(range(400))


@pytest.mark.suite
def test_a_folder_that_turns_read_only_when_a_new_file_is_due_loses_the_steps_after_it_and_says_so(
    bench: Any, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    progress = bench.folder / "progress"
    process = subprocess.Popen(
        bench.command(
            str(SCRIPT), str(progress), options=["--disk-limit", "1.1MB", "--budget", "off"]
        ),  # 1 MiB segments
        cwd=bench.folder,
        env=bench.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=obey_permissions,  # noqa: PLW1509
    )
    wait_for(lambda: progress.exists() and progress.read_text() not in {"", "0"})
    set_writable(bench.run, 0o555)
    _, err = process.communicate(timeout=120)
    set_writable(bench.run, 0o755)

    assert process.returncode == 3
    assert err.count(b"[journal]") == 1
    with Trace(bench.run) as trace:
        steps = trace.sql("SELECT step FROM steps WHERE completed ORDER BY step")["step"].to_list()
        assert steps == list(range(len(steps)))
        assert 1 < len(steps) < 400
        found = next(f for f in diagnose(trace).causes if f.name == "recording-incomplete")
        assert found.severity == "warning"
        assert found.step == len(steps)


@pytest.mark.suite
@pytest.mark.slow
def test_a_slow_disk_changes_no_number_and_thins_what_is_written(bench: Any) -> None:
    plain = bench.plain(str(SCRIPT))
    (bench.folder / "firstfault.toml").write_text('[run]\nbudget = "3%"\ngrace = "200ms"\n')
    done = subprocess.run(
        bench.command(str(SCRIPT), "unused", "0.003"),
        cwd=bench.folder,
        env=bench.environment(),
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, plain.stdout)
    with Trace(bench.run) as trace:
        assert trace.sql("SELECT count(*) FROM steps WHERE completed").item() == 400
        assert trace.sql("SELECT max(interval) FROM recorder_stats WHERE reason = 'budget'").item() > 1
        why = [n.why for n in diagnose(trace).not_evaluable if n.name == "recording-incomplete"]
    assert any("recording was sampled" in w for w in why)


@pytest.mark.suite
def test_a_full_disk_is_named_with_the_first_step_that_is_missing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    small = Path(__file__).parent / "scripts" / "small_disk.py"
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), str(small), "60000"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    with Trace(run) as trace:
        steps = set(trace.sql("SELECT step FROM steps WHERE completed")["step"].to_list())
        missing = min(set(range(60)) - steps)
        found = next(f for f in diagnose(trace).causes if f.name == "recording-incomplete")
    assert (found.step, found.severity) == (missing, "warning")
