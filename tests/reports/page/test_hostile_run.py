"""One folder with every trick: all commands read it, nothing happens, and its page shows names as names."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from firstfault.application import build_app
from firstfault.schemas import ExceptionRecord, write_json
from firstfault.schemas.files.layout import part_path
from typer.testing import CliRunner

SCRIPTS = [
    "</script><script>window.hacked=1;alert(1)</script>",
    "<img src=x onerror=window.hacked=1>",
    "<svg/onload=window.hacked=1>",
    "javascript:window.hacked=1",
    '"onmouseover="window.hacked=1" x=\'',
    "{{ ''.__class__.__mro__[1].__subclasses__() }}{% raw %}",
    "${window.hacked=1}`",
    "<!-- --><style>*{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=https://example.org/'>",
    "<base href=https://example.org/>",
    "'; COPY (SELECT 1) TO 'copied.csv'; --",
    "\x1b]0;owned\x07\x1b[2J\u202e",
    "datum.x + (window.hacked=1)",
]
NAMES = [s.replace("/", "∕") for s in SCRIPTS]
"""The same as names of files, which hold no slash."""

COMMANDS = (
    ["check"],
    ["diagnose"],
    ["diagnose", "--json"],
    ["report", "-o", "{out}/page.html", "--force"],
    ["report", "--share", "-o", "{out}/shared.html", "--force"],
    ["replay"],
    ["watch", "--once"],
    ["sql", "FROM modules"],
    ["export", "--out", "{out}/trace.json"],
    ["mre", "-o", "{out}/rerun.py"],
    ["batch", "-o", "{out}/batch"],
)
OWN_PROCESS = (COMMANDS[3],)
"""What a Python that starts in the folder could be made to import; tests/analyzer/reading/test_hostile_folder.py has others."""


class Bomb:
    """What runs when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What a folder has no business with."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "private.py").write_text("PRIVATE = 'the-owner-of-this-machine'\n" * 20)
    (folder / "private.csv").write_text("a\nthe-owner-of-this-machine\n")
    return folder


@pytest.fixture
def hostile(run_folder: Any, outside: Path, tmp_path: Path) -> Path:
    """The folder. Every file that firstfault reads by a fixed name is a trick, or holds some."""
    mark = tmp_path / "hacked"
    private = outside / "private.py"
    error = ExceptionRecord(
        type="".join(SCRIPTS[:2]),
        message="\n".join(SCRIPTS),
        traceback=f'Traceback (most recent call last):\n  File "{private}", line 1, in <module>\n' + "\n".join(SCRIPTS),
        user_frame=f"{private}:1 in {SCRIPTS[1]}: {SCRIPTS[0]}",
        module=SCRIPTS[0],
        rank=0,
        step=9,
        inputs=[
            {"name": SCRIPTS[1], "shape": [1], "dtype": SCRIPTS[0], "device": SCRIPTS[2], "min": None, "max": None}
        ],
    )
    run = run_folder(NAMES[1], status="exception", exception=error)
    for number, name in enumerate(SCRIPTS):
        run.module(number, name, class_name=name, model=name)
        run.add("events", event="warning", message=name, step=number % 8, time_ns=1)
    for step in range(10):
        run.step(step)
        for number in range(len(SCRIPTS)):
            run.stat(step, number, None if step > 7 else 1.0)
    run.config = {name: name for name in SCRIPTS} | {"path": str(private)}
    folder = run.write()
    (folder / "output.log").write_text("\n".join(SCRIPTS))
    code = f"import os; os.mkdir({str(mark)!r})"
    for name in (
        "sitecustomize.py",
        "usercustomize.py",
        "torch.py",
        "duckdb.py",
        "polars.py",
        "conftest.py",
        "train.py",
    ):
        (folder / name).write_text(code)
    (folder / "firstfault.toml").write_text('paths = ["/"]\n[rules]\noff = ["nonfinite-loss"]\n')
    (folder / "pyproject.toml").write_text('[tool.firstfault.run]\nout = "/"\n')
    for place in ("rules", "sql", "analyzer/rules/data"):
        (folder / place).mkdir(parents=True)
        (folder / place / "XX001_evil.sql").write_text(f"COPY (SELECT 1) TO '{mark}'")
    (folder / ".duckdbrc").write_text(f".shell mkdir {mark}")
    capture = folder / "captures" / "step=000008-rank=0000"
    capture.mkdir(parents=True)
    (capture / "meta.json").symlink_to(outside / "private.csv")
    for name in ("batch.pt", "call.pt", "module.pt", "rng.pt"):
        (capture / name).write_bytes(pickle.dumps(Bomb(mark)))
    (folder / "native").mkdir()
    (folder / "native" / "rank=0000-memory-oom-step=000008.pickle").write_bytes(pickle.dumps(Bomb(mark)))
    (folder / "native" / "rank=0000.stack").symlink_to(private)
    part = part_path(folder, 1, "steps", 0)
    part.parent.mkdir()
    part.symlink_to(outside / "private.csv")
    (folder / "param_groups" / "rank=0001").symlink_to(outside)
    (folder / "breadcrumb").mkdir()
    os.mkfifo(folder / "breadcrumb" / "rank=0000.bin")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "up").symlink_to(folder.parent)
    listing = {"files": {"../outside/private.csv": [1, 1], str(private): [1, 1], "\0": [1, 1]}}
    (folder / "checksums.json").write_text(json.dumps(listing))
    with (folder / "probes.json").open("wb") as file:
        file.truncate(2**40)
    (folder / "proof.json").write_text('{"trials": ' + "[" * 100_000)
    (folder / "steps; DROP").mkdir()
    return folder


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file, its size and when it was changed; links are themselves."""
    found = {}
    for base, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            about = (Path(base) / name).lstat()
            found[f"{base}/{name}"] = about.st_size, about.st_mtime_ns
    return found


@pytest.mark.slow
def test_every_command_reads_it_and_nothing_happens(judged_here, hostile, outside, tmp_path, open_page, monkeypatch):
    write_json(tmp_path / "ours.json", {})  # something beside it that a writer could hit
    before = state_of(tmp_path)
    out = tmp_path.parent / f"{tmp_path.name}-out"
    out.mkdir()
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("MY_OWN_TOKEN", "t0k3n-0f-this-machine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(out / "cache"))
    said = {}
    for words in COMMANDS:
        first, *rest = (w.format(out=out) for w in words)
        if words in OWN_PROCESS:
            command = [Path(sys.executable).parent / "firstfault", first, str(hostile), *rest]
            done = subprocess.run(command, cwd=hostile, capture_output=True, text=True, timeout=300, check=False)
            printed, warned = done.stdout, done.stderr
        else:
            invoked = CliRunner().invoke(build_app(), [first, str(hostile), *rest])
            assert invoked.exception is None or isinstance(invoked.exception, SystemExit), (words, invoked.exception)
            printed, warned = invoked.stdout, invoked.stderr
        assert "Traceback (most recent call last)" not in warned, (words, warned)
        said[" ".join(words)] = printed + warned
        shown = warned if "--json" in words else printed + warned  # JSON in a pipe is data
        assert not [c for c in shown if c in "\x1b\x07\u202e"], words
    assert state_of(tmp_path) == before
    written = {
        p.name: p.read_text("utf-8") for p in out.rglob("*") if p.suffix in {".html", ".json", ".py"} and p.is_file()
    }
    assert {"page.html", "shared.html", "trace.json", "index.html"} <= set(written)
    for name, text in [*written.items(), *said.items()]:
        for private in ("the-owner-of-this-machine", "t0k3n-0f-this-machine"):
            assert private not in text, (name, private)
    assert str(tmp_path) not in written["shared.html"]
    for name in ("page.html", "shared.html", "batch/index.html"):
        opened = open_page(out / name)
        if name == "page.html":
            opened.drawn()
        for details in opened.page.locator("details").all():
            details.evaluate("e => { e.open = true; }")
        opened.page.wait_for_timeout(500)
        assert opened.page.evaluate("window.hacked === undefined")
        assert opened.said == [], name
        assert opened.asked == [(out / name).as_uri()], name
        assert opened.page.locator("main script, main img, main base, main meta, main style").count() == 0
