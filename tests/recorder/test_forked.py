"""What a fork records is what a process of its own records, and it ends as that does."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import forked
import pytest

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("compare_recorders", HERE / "compare_recorders.py")
compare_recorders = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compare_recorders)


def test_a_fork_records_the_rows_of_a_process_of_its_own(tmp_path: Path) -> None:
    found = []
    for run_python in (subprocess.run, forked.run):
        run = tmp_path / run_python.__module__ / "run"
        run.parent.mkdir()
        command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--budget", "off", "--out", str(run)]
        run_python([*command, HERE / "scripts" / "styles.py", "plain"], capture_output=True, check=True)
        found.append(compare_recorders.comparable(run))
    assert found[0]["tensor_stats"]
    assert compare_recorders.differences(*found) == []


@pytest.mark.parametrize(
    ("script", "status", "out", "err"),
    [
        ("import sys; sys.exit(3)", 3, "", ""),
        ("raise SystemExit('over')", 1, "", "over"),
        (
            "def f():\n    raise ValueError('no')\nf()",
            1,
            "",
            "line 2, in f\n    raise ValueError('no')\nValueError: no",
        ),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, "", ""),
        ("import sys; print(input()[::-1], sys.argv, __name__)", 0, "cba ['script.py', 'é'] __main__", ""),
    ],
)
def test_status_and_streams_are_those_of_python(script: str, status: int, out: str, err: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(script)
    done = forked.run([sys.executable, "script.py", "é"], cwd=tmp_path, input="abc\n", text=True)
    assert (done.returncode, done.stdout.strip()) == (status, out)
    assert done.stderr.strip().endswith(err)
    assert "forked.py" not in done.stderr
