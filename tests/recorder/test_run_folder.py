"""A run folder is made once, says what was started, and is never made over another."""

import shutil
import subprocess
import sys

import pytest
from firstfault.recorder.base.errors import RecorderError
from firstfault.recorder.storage.run_folder import create_run, git_state
from firstfault.schemas import read_manifest


def _create(out, **more):
    return create_run(out, argv=["python", "train.py"], script="train.py", **more)


def test_the_manifest_says_what_was_started(tmp_path):
    run = _create(tmp_path / "a" / "run", config={"lr": 0.1}, options={"every": 1}, supervised=False)
    manifest = read_manifest(run)
    assert run.is_absolute()
    assert (manifest.argv, manifest.script, manifest.supervised) == (["python", "train.py"], "train.py", False)
    assert (manifest.config, manifest.options) == ({"lr": 0.1}, {"every": 1})
    assert manifest.versions["torch"].startswith("2.")
    assert manifest.versions["executable"] == sys.executable


def test_without_a_folder_each_run_gets_its_own_below_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = {_create(None) for _ in range(5)} | {_create(None, name="a/b ../名")}
    assert len(runs) == 6
    assert {run.parent for run in runs} == {tmp_path / "firstfault-runs"}
    assert sum(run.name.endswith("Z-train", 0, -5) for run in runs) == 5
    assert any("-a-b-..-名-" in run.name for run in runs)
    assert {read_manifest(run).run_id for run in runs} == {run.name for run in runs}


def test_an_empty_folder_is_taken_and_a_used_one_is_not(tmp_path):
    (tmp_path / "empty").mkdir()
    run = _create(tmp_path / "empty")
    before = (run / "run.json").read_bytes()
    with pytest.raises(RecorderError, match=r"empty: is not empty.*--out"):
        _create(tmp_path / "empty")
    assert (run / "run.json").read_bytes() == before


def test_a_file_and_a_place_that_takes_no_folder_are_named(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RecorderError, match=r"file: is a file.*--out"):
        _create(tmp_path / "file")
    with pytest.raises(RecorderError, match=r"below: cannot be created.*--out"):
        _create(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "mine"


def test_names_that_are_not_utf8_are_written_as_escapes(tmp_path):
    manifest = read_manifest(create_run(tmp_path / "run", argv=["a\udcff名"], script="tr\udcffain.py"))
    assert manifest.argv == ["a\\xff名"]


def test_the_commit_of_the_scripts_checkout_is_noted(tmp_path):
    git_program = shutil.which("git")
    assert git_program is not None

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        done = subprocess.run(
            [git_program, *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    assert git_state(tmp_path / "nowhere") == (None, None)
    git("init")
    assert git_state(tmp_path) == (None, None)
    (tmp_path / "train.py").write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    assert git_state(tmp_path) == (git("rev-parse", "HEAD"), False)
    (tmp_path / "untracked").write_text("1")
    assert git_state(tmp_path)[1] is False
    (tmp_path / "train.py").write_text("2")
    assert git_state(tmp_path) == (git("rev-parse", "HEAD"), True)


def test_without_git_the_commit_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) == (None, None)
