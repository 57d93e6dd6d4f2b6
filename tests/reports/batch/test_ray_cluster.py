"""`batch --engine ray` gives what the processes of one machine give. Run by `make suite`, which installs Ray."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from firstfault.application import build_app
from typer.testing import CliRunner


@pytest.fixture
def command() -> Any:
    app = build_app("batch")
    return lambda *args: CliRunner().invoke(app, ["batch", *map(str, args)], catch_exceptions=False)


def index(out: Path) -> dict[str, Any]:
    return json.loads((out / "index.json").read_text())


@pytest.fixture
def tree(run_folder: Any, tmp_path: Path) -> Path:
    for name, lost in (("good", 99), ("lost", 6)):
        run = run_folder(f"tree/{name}")
        run.module(0, "net")
        for step in range(12):
            run.step(step, **({"loss": float("nan"), "grad_norm": float("nan")} if step >= lost else {}))
            run.stat(step, 0, None if step >= lost else 1.0)
        run.write()
    (tmp_path / "tree" / "torn").mkdir()
    (tmp_path / "tree" / "torn" / "run.json").write_text("{")
    return tmp_path / "tree"


@pytest.mark.suite
def test_ray_gives_the_same_index_pages_and_findings_as_processes(tree, command, tmp_path):
    by_ray, here = tmp_path / "by-ray", tmp_path / "here"
    codes = [command(tree, "-o", by_ray, "--engine", "ray").exit_code, command(tree, "-o", here, "-j", 1).exit_code]

    assert codes == [1, 1]
    assert index(by_ray) == index(here)
    assert [r["verdict"] for r in index(by_ray)["runs"]] == ["healthy", "anomalous", "unreadable"]
    assert {p.name for p in (by_ray / "runs").iterdir()} == {p.name for p in (here / "runs").iterdir()}
    assert (by_ray / "findings.parquet").read_bytes() == (here / "findings.parquet").read_bytes()
    command(tree, "-o", by_ray, "--engine", "ray")
    assert [r["fresh"] for r in index(by_ray)["runs"]] == [False, False, True]


def test_without_ray_one_sentence_names_the_extra(tree, command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    done = command(tree, "-o", tmp_path / "out", "--engine", "ray")
    assert done.exit_code == 2
    assert done.stderr == "firstfault: --engine ray needs Ray, which is not installed; pip install 'firstfault[ray]'\n"
