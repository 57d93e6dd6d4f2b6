"""Runs that lie elsewhere: found, fetched as far as needed, judged like runs of this machine; one broken run stops no other."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import rules_for
from firstfault.application import build_app
from firstfault.reports.batch.remote import RemoteFile, RemoteRun, cached, fetch, runs_at
from firstfault.reports.batch.run_tree import find_runs, state_key
from firstfault.reports.text.errors import NoRunError, ReportError
from typer.testing import CliRunner


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def command(judged_here: None) -> Any:
    app = build_app("batch")
    return lambda *args: CliRunner().invoke(app, ["batch", "-j", "1", *map(str, args)], catch_exceptions=False)


@pytest.fixture
def sweep(run_folder: Any, tmp_path: Path) -> Path:
    """Two runs, one of them deep and with a capture, and a torn one between them."""
    for name in ("sweep/a", "sweep/deep/c d"):
        run = run_folder(name)
        run.module(0, "net")
        for step in range(12):
            run.step(step)
            run.stat(step, 0, 1.0)
        run.write()
    capture = tmp_path / "sweep" / "a" / "captures" / "step=000003-rank=0000"
    capture.mkdir(parents=True)
    (capture / "module.pt").write_bytes(bytes(1000))
    (tmp_path / "sweep" / "b").mkdir()
    (tmp_path / "sweep" / "b" / "run.json").write_text('{"run_id": ')
    return tmp_path / "sweep"


def rows(out: Path) -> dict[str, dict[str, Any]]:
    return {r["name"]: r for r in json.loads((out / "index.json").read_text())["runs"]}


def test_a_tree_at_an_address_comes_out_like_the_same_tree_here(sweep, command, found_healthy, drawn_at_once, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    command(sweep, "-o", here)
    done = command(sweep.as_uri(), "-o", there)

    assert done.exit_code == 3
    one, other = rows(here), rows(there)
    assert {n: r["verdict"] for n, r in other.items()} == {"a": "healthy", "b": "unreadable", "deep/c d": "healthy"}
    assert {n: r["verdict"] for n, r in one.items()} == {n: r["verdict"] for n, r in other.items()}
    assert other["a"]["path"] == f"{sweep.as_uri()}/a"
    assert "run.json" in other["b"]["error"]
    assert all((there / r["page"]).exists() for r in other.values() if r["page"])
    command(sweep.as_uri(), "-o", there)
    assert [r["fresh"] for r in rows(there).values()] == [False, True, False]


def test_what_has_changed_there_is_fetched_again_and_nothing_else(sweep, cache):
    first, torn, other = runs_at(sweep.as_uri())
    folder = fetch(first)
    assert (folder / "run.json").read_bytes() == (sweep / "a" / "run.json").read_bytes()
    assert not list(folder.rglob("*.pt"))
    assert other.below == "deep/c d"
    assert torn.below == "b"
    parts = sorted(folder.rglob("*.parquet"))
    stamps = {p: p.stat().st_ino for p in parts}

    (sweep / "a" / "exit.json").write_text("{}")
    shutil.move(sweep / "a" / parts[0].relative_to(folder), sweep / "a" / "moved.parquet")
    again = runs_at(sweep.as_uri())[0]
    fetch(again)

    assert (folder / "exit.json").read_text() == "{}"
    assert not parts[0].exists()
    assert (folder / "moved.parquet").exists()
    assert {p: p.stat().st_ino for p in parts[1:]} == {p: stamps[p] for p in parts[1:]}


def test_the_row_of_a_run_is_kept_until_a_file_of_it_changes_there(sweep):
    rules = rules_for(None, None)
    before = {p.name: state_key(p, rules) for p in find_runs([sweep.as_uri()])}
    os.utime(sweep / "a" / "run.json", ns=(1, 1))
    after = {p.name: state_key(p, rules) for p in find_runs([sweep.as_uri()])}
    assert before["a"] != after["a"]
    assert before["deep/c d"] == after["deep/c d"]


def test_any_file_system_of_fsspec_will_do(sweep):
    import fsspec  # comes with torch

    memory = fsspec.filesystem("memory")
    memory.put(str(sweep), "/bucket/sweep", recursive=True)
    try:
        found = runs_at("memory://bucket/sweep")
        assert [r.below for r in found] == ["a", "b", "deep/c d"]
        folder = fetch(found[2])
        assert {str(p.relative_to(folder)) for p in folder.rglob("*.parquet")} == {
            str(p.relative_to(sweep / "deep" / "c d")) for p in (sweep / "deep" / "c d").rglob("*.parquet")
        }
        memory.rm("/bucket/sweep/a/run.json")
        with pytest.raises(ReportError, match=r"memory://bucket/sweep/a: cannot be fetched"):
            fetch(found[0])
    finally:
        memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize("name", ["../../escaped", "a/../../b", "/etc/passwd", "a\\..\\b"])
def test_a_file_whose_name_leads_out_of_its_run_is_not_written(name, sweep, cache):
    run = RemoteRun(sweep.as_uri(), str(sweep / "a"), "file:///sweep/a", "a", (RemoteFile(name, 1, 0),))
    with pytest.raises(ReportError, match="is no name of a file"):
        fetch(run)
    assert not list(cache.rglob("*escaped*"))
    assert not cached(run).exists()


def test_what_is_secret_in_an_address_is_shown_nowhere(sweep, command, tmp_path):
    done = command(
        f"s3://AKIA:hush@{tmp_path.name}/x?endpoint_override=127.0.0.1:9&scheme=http", "-o", tmp_path / "out"
    )
    assert done.exit_code == 2
    assert f"s3://{tmp_path.name}/x: cannot be" in done.stderr
    assert "hush" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_address_that_nobody_can_read_says_what_is_missing(sweep, monkeypatch):
    with pytest.raises(ReportError, match=r"nosuch://x: fsspec cannot read it"):
        runs_at("nosuch://x")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ReportError, match=r"pip install 'firstfault\[remote\]'"):
        runs_at("memory://x")
    with pytest.raises(NoRunError, match="no run at or below it"):
        runs_at((sweep / "deep" / "c d" / "steps").as_uri())


@pytest.mark.suite
def test_a_sweep_in_a_bucket_is_judged_from_there(sweep, command, tmp_path, monkeypatch):
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "x")
        store = fs.S3FileSystem(endpoint_override=f"{host}:{port}", scheme="http", allow_bucket_creation=True)
        store.create_dir("bucket")
        fs.copy_files(
            str(sweep), "bucket/my sweep", source_filesystem=fs.LocalFileSystem(), destination_filesystem=store
        )

        done = command("s3://bucket/my sweep", "-o", tmp_path / "out")
        found = rows(tmp_path / "out")
        assert done.exit_code == 3, done.stderr
        assert {n: r["verdict"] for n, r in found.items()} == {"a": "healthy", "b": "unreadable", "deep/c d": "healthy"}
        assert found["a"]["path"] == "s3://bucket/my sweep/a"
        command("s3://bucket/my sweep", "-o", tmp_path / "out")
        assert [r["fresh"] for r in rows(tmp_path / "out").values()] == [False, True, False]
    finally:
        server.stop()
