"""The processes below a script: all of them, in order, and those of others read once."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from firstfault.recorder.supervisor.descendants import Descendants

pytestmark = pytest.mark.new_process


def _process(proc: Path, pid: int, parent: int, name: str = "python") -> Path:
    stat = proc / str(pid) / "stat"
    stat.parent.mkdir(parents=True)
    stat.write_text(f"{pid} ({name}) S {parent} {pid} 1 0 -1 4194560 1")
    return stat


def test_what_the_kernel_shows_is_found_as_psutil_finds_it():
    """A script whose child has a child of its own, beside everything else that runs here."""
    child = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'input()']); print('up', flush=True); p.wait()"
    script = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert script.stdout is not None
    script.stdout.readline()
    descendants = Descendants(script.pid)
    expected = [script.pid, *(p.pid for p in psutil.Process(script.pid).children(recursive=True))]
    assert len(expected) == 2
    assert descendants.look() == expected == descendants.look()
    script.communicate(b"\n")
    assert descendants.look() == []


def test_processes_of_others_are_read_once_and_new_ones_of_ours_are_found(tmp_path):
    for pid, parent in [(1, 0), (50, 1), (60, 50)]:
        _process(tmp_path, pid, parent)
    descendants = Descendants(50, tmp_path)
    assert descendants.look() == [50, 60]
    (tmp_path / "1" / "stat").write_text("not to be read again")
    _process(tmp_path, 61, 60, "a) S 1 (")  # a name that looks like the fields behind it
    _process(tmp_path, 62, 61)
    _process(tmp_path, 70, 1)
    assert descendants.look() == [50, 60, 61, 62]


def test_a_number_that_was_somebody_elses_can_become_ours(tmp_path):
    for pid, parent in [(1, 0), (50, 1), (70, 1)]:
        _process(tmp_path, pid, parent)
    descendants = Descendants(50, tmp_path)
    assert descendants.look() == [50]
    (tmp_path / "70" / "stat").unlink()
    (tmp_path / "70").rmdir()
    assert descendants.look() == [50]
    _process(tmp_path, 70, 50)
    assert descendants.look() == [50, 70]


def test_a_child_that_is_listed_before_its_parent_is_found_at_the_next_look(tmp_path):
    for pid, parent in [(1, 0), (50, 1), (71, 70)]:
        _process(tmp_path, pid, parent)
    descendants = Descendants(50, tmp_path)
    assert descendants.look() == [50]
    _process(tmp_path, 70, 50)
    assert descendants.look() == [50, 70, 71]


def test_an_orphan_is_no_longer_below_the_script(tmp_path):
    for pid, parent in [(1, 0), (50, 1), (60, 50)]:
        _process(tmp_path, pid, parent)
    descendants = Descendants(50, tmp_path)
    assert descendants.look() == [50, 60]
    (tmp_path / "60" / "stat").write_text("60 (python) S 1 60 1 0 -1 4194560 1")
    assert descendants.look() == [50]


def test_our_own_process_is_below_its_parent():
    assert os.getpid() in Descendants(os.getppid()).look()
