"""Opening a run that a stranger made executes nothing, reads nothing outside it, writes nothing, and bounds what it takes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import forked
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.errors import AnalyzerError, QueryError
from firstfault.application import build_app
from firstfault.reports.commands.sql import asked
from firstfault.schemas import TABLES, RunManifest, captures_of, write_json
from firstfault.schemas.files.layout import part_path
from typer.testing import CliRunner

TERMINAL = "\x1b]0;owned\x07\x1b[2J\u202e"
"""Sets the window's title, clears the screen, turns the direction of writing."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    manifest = RunManifest(
        run_id=f"r{TERMINAL}",
        firstfault_version="0.1.0",
        argv=["python", f"train{TERMINAL}.py"],
        script="train.py",
        cwd="/home/them",
        started_ns=1,
        hostname="theirs",
        pid=2**22 + 1,
        python="3",
        platform="Linux",
    )
    write_json(folder / "run.json", manifest)
    (folder / "exit.json").write_text('{"status": "completed", "ended_ns": 2, "exit_code": 0}')
    rows = [{"rank": 0, "step": step, "loss": 1.0 + step, "completed": True, "stepped": True} for step in range(30)]
    put(folder, "steps", rows)
    put(folder, "modules", [{"rank": 0, "module_id": 0, "module": f"net{TERMINAL}", "class_name": f"Net{TERMINAL}"}])
    return folder


def put(folder: Path, table: str, rows: list[dict]) -> Path:
    path = part_path(folder, 0, table, 0)
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, TABLES[table].schema), path)
    return path


def invoke(*arguments: str):
    return CliRunner().invoke(build_app(), list(arguments))


FORBIDDEN = (
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT * FROM read_csv('{outside}/secret.csv')",
    "SELECT * FROM '{outside}/secret.csv'",
    "SELECT * FROM read_text('{run}/../outside/secret.csv')",
    "SELECT * FROM read_text('{run}/link.csv')",
    "SELECT * FROM glob('{outside}/*')",
    "COPY (SELECT 1) TO '{outside}/written.csv'",
    "COPY (SELECT 1) TO '{run}/written.csv'",
    "EXPORT DATABASE '{outside}/written'",
    "ATTACH '{outside}/written.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT * FROM 'https://localhost:1/x.parquet'",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "PRAGMA enable_object_cache",
    "SELECT 1; COPY (SELECT 1) TO '{outside}/written.csv'",
    "SELECT * FROM os",
)


def test_sql_reads_and_writes_no_files_and_reaches_no_network(run, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("a\nsecret\n")
    (run / "link.csv").symlink_to(outside / "secret.csv")
    before = sorted(p.name for p in [*run.rglob("*"), *outside.rglob("*")])
    with Trace(run) as trace:
        for query in FORBIDDEN:
            with pytest.raises(QueryError):
                asked(trace, query.format(run=run, outside=outside), unsafe=False)
    assert sorted(p.name for p in [*run.rglob("*"), *outside.rglob("*")]) == before


def test_what_sql_may_not_do_is_said_in_one_line_with_the_option_that_allows_it(run, tmp_path):
    done = invoke("sql", str(run), f"COPY steps TO '{tmp_path}/written.csv'")
    assert done.exit_code == 2
    assert done.output == "firstfault: COPY may write files or load code; use --unsafe if you mean it\n"
    assert not (tmp_path / "written.csv").exists()


def test_sql_reads_files_where_it_is_told_to(run, tmp_path):
    (tmp_path / "mine.csv").write_text("a\n42\n")
    done = invoke("sql", str(run), f"SELECT * FROM read_csv('{tmp_path}/mine.csv')", "--unsafe", "--csv")  # noqa: S608 # a test's own path
    assert (done.exit_code, done.stdout) == (0, "a\n42\n")


def test_tables_of_ones_own_can_be_made_in_memory(run):
    done = invoke("sql", str(run), "CREATE TABLE t AS SELECT max(loss) AS most FROM steps; FROM t", "--csv")
    assert (done.exit_code, done.stdout) == (0, "most\n30.0\n")


def test_a_part_that_is_a_link_out_of_the_folder_is_left_out_and_said(run, tmp_path):
    part = part_path(run, 0, "steps", 0)
    elsewhere = tmp_path / "elsewhere.parquet"
    shutil.move(part, elsewhere)
    part.symlink_to(elsewhere)
    with Trace(run) as trace:
        assert [(Path(p.path), p.what) for p in trace.problems] == [(part, "it is a link out of the run folder")]
        assert not trace.has("steps")


def test_a_table_folder_that_is_a_link_out_of_the_folder_is_left_out_and_said(run, tmp_path):
    shutil.move(run / "steps", tmp_path / "steps")
    (run / "steps").symlink_to(tmp_path / "steps")
    with Trace(run) as trace:
        assert [p.what for p in trace.problems] == ["it is a link out of the run folder"]


def test_links_inside_the_folder_and_a_link_to_the_folder_are_followed(run, tmp_path):
    part = part_path(run, 0, "steps", 0)
    part.rename(run / "kept.parquet")
    part.symlink_to(run / "kept.parquet")
    (tmp_path / "latest").symlink_to(run)
    with Trace(tmp_path / "latest") as trace:
        assert trace.problems == []
        assert trace.steps_recorded() == 30


@pytest.mark.parametrize(
    ("name", "trick"),
    [
        ("run.json", "link"),
        ("exit.json", "pipe"),
        ("run.json", "deep"),
        ("exit.json", "huge"),
        ("run.json", "not UTF-8"),
    ],
)
def test_a_manifest_that_is_no_honest_file_is_named_and_the_rest_is_read(run, tmp_path, name, trick):
    path = run / name
    path.unlink()
    match trick:
        case "link":
            (tmp_path / "outside.json").write_text('{"secret": 1}')
            path.symlink_to(tmp_path / "outside.json")
        case "pipe":
            os.mkfifo(path)
        case "deep":
            path.write_text('{"status": ' + "[" * 200_000)
        case "huge":
            with path.open("wb") as file:
                file.truncate(2**40)
        case _:
            path.write_bytes(b'{"status": "\xff\xfe", "schema_version": 1}')
    with Trace(run) as trace:
        assert [Path(p.path) for p in trace.problems] == [path]
    done = invoke("diagnose", str(run), "--json")
    verdict = json.loads(done.stdout)
    assert verdict["run"]["steps_recorded"] == 30
    assert [n["why"] for n in verdict["not_evaluable"] if str(path) in n["why"]]
    assert "secret" not in done.output
    assert "Traceback" not in done.output


def test_a_folder_of_which_nothing_can_be_read_is_refused_in_one_line(tmp_path):
    (tmp_path / "run.json").write_bytes(b"\xff\xfe{")
    done = invoke("diagnose", str(tmp_path))
    assert done.exit_code == 2
    assert done.output.startswith(f"firstfault: {tmp_path / 'run.json'}: ")
    assert done.output.count("\n") == 1


def test_a_capture_that_is_a_link_out_of_the_folder_is_no_capture_of_this_run(run, tmp_path):
    (run / "captures" / "step=000001-rank=0000").mkdir(parents=True)
    (tmp_path / "meta.json").write_text('{"capture":"x","rank":0,"step":1,"microbatch":0,"reason":"loss","time_ns":1}')
    (run / "captures" / "step=000001-rank=0000" / "meta.json").symlink_to(tmp_path / "meta.json")
    assert captures_of(run) == []


def test_output_that_is_a_link_out_of_the_folder_does_not_come_into_the_page(run, tmp_path):
    (tmp_path / "private.txt").write_text("what is nobody's concern")
    (run / "output.log").symlink_to(tmp_path / "private.txt")
    done = invoke("report", str(run), "-o", str(tmp_path / "page.html"))
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "nobody" not in page
    assert "it is a link out of the run folder" in page


def test_names_that_would_command_the_terminal_are_shown_as_what_they_are(judged_here, run, tmp_path):
    named = tmp_path / f"run{TERMINAL}"
    run.rename(named)
    page = str(tmp_path / "page.html")
    for arguments in (
        ["diagnose", str(named)],
        ["report", str(named), "-o", page],
        ["sql", str(named), "FROM modules"],
        ["sql", str(named), "SELECT argv FROM runs"],
        ["sql", str(named), f"SELECT '{TERMINAL}' FROM nowhere"],  # noqa: S608 # a test's own text
        ["diagnose", str(named / "nowhere")],
        ["replay", str(named)],
        ["check", str(named)],
        ["compare", str(named), str(named)],
        ["watch", str(named), "--once"],
        ["batch", str(tmp_path), "-o", str(tmp_path / "batch")],
        ["batch", str(named / "nowhere")],
        ["sql", str(named), f'SELECT 1 AS "{TERMINAL}"'],
        ["sql", str(named), f"SELECT error('{TERMINAL}')"],  # a test's own text
        ["export", str(named), "--out", str(tmp_path / "out.json")],
        ["import", str(named / "nowhere"), "--out", str(tmp_path / "imported")],
        ["mre", str(named)],
    ):
        done = invoke(*arguments)
        hidden = [c for c in done.output if c in TERMINAL and not c.isprintable()]
        assert hidden == [], (arguments, done.output)


def test_nothing_in_a_folder_is_run_by_opening_it(run, tmp_path):
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'w').write('x')"
    for name in ("sitecustomize.py", "torch.py", "conftest.py", "firstfault.py", "duckdb.py", "polars.py"):
        (run / name).write_text(code)
    (run / "rules").mkdir()
    (run / "rules" / "XX001_evil.sql").write_text(f"COPY (SELECT 1) TO '{mark}'")
    (run / ".duckdbrc").write_text(f".shell touch {mark}")
    (run / "firstfault.toml").write_text('rules = "rules"\n')
    for command in (["diagnose", "."], ["sql", ".", "SELECT 1"]):  # `report` has tests/reports/page/test_hostile_run.py
        done = subprocess.run(
            [Path(sys.executable).parent / "firstfault", *command],
            cwd=run,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stderr
    assert not mark.exists()


def test_on_a_terminal_csv_and_json_command_nothing_either(run):
    import pty

    for option in ("--csv", "--json"):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "firstfault", "sql", str(run), "FROM modules", option]
        with (
            Path(os.devnull).open("rb") as nothing,
            os.fdopen(theirs, "wb") as terminal,
            tempfile.TemporaryFile() as errors,
        ):
            status = forked.Process(command, streams=[nothing, terminal, errors]).wait(120)
            errors.seek(0)
            warned = errors.read()
        said = b""
        while True:
            try:
                block = os.read(ours, 65536)
            except OSError:
                break
            if not block:
                break
            said += block
        os.close(ours)
        assert (status, warned) == (0, b"")
        assert b"Net" in said
        assert b"\x1b" not in said
        assert "\u202e".encode() not in said


def test_no_view_is_defined_by_the_folder(run):
    """Folders and files that are called like views, with SQL in them, are nothing to DuckDB."""
    (run / "sql").mkdir()
    for name in ("steps", "modules", "findings", "views", "bad_steps"):
        (run / "sql" / f"{name}.sql").write_text(f"CREATE OR REPLACE VIEW {name} AS SELECT 1")
        (run / f"{name}.sql").write_text(f"CREATE OR REPLACE VIEW {name} AS SELECT 1")
        (run / f"{name}.parquet").write_bytes(b"PAR1")
    with Trace(run) as trace:
        assert trace.steps_recorded() == 30
        assert diagnose(trace).run.steps_recorded == 30


def test_its_own_settings_switch_no_rule_off_and_load_none(run, tmp_path, monkeypatch):
    monkeypatch.chdir(run)
    before = invoke("diagnose", str(run), "--json").stdout
    (run / "firstfault.toml").write_text('[rules]\noff = ["OP004", "loss-spike"]\n[rules.OP004]\nratio = 1e9\n')
    (run / "pyproject.toml").write_text('[tool.firstfault.run]\nout = "/tmp/elsewhere"\n')
    after = json.loads(invoke("diagnose", str(run), "--json").stdout)
    assert after["changes"] == []
    assert [c["name"] for c in after["causes"]] == [c["name"] for c in json.loads(before)["causes"]]
    assert sum("came with the run" in n["why"] for n in after["not_evaluable"]) == 1


def test_a_listing_of_checksums_that_names_files_elsewhere_reads_none_of_them(run, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    listing = {"files": {"../secret.txt": [6, 1], "/etc/hostname": [1, 1], "x": "y", "z": [1, 2, 3], "\0": [1, 1]}}
    (run / "checksums.json").write_text(json.dumps(listing))
    with Trace(run) as trace:
        whats = {p.what for p in trace.problems}
    assert whats <= {
        "it is a link out of the run folder",
        "it is missing",
        "it names what cannot be a file of this run",
    }


def test_a_trace_in_the_reading_api_is_locked_too(run):
    with Trace(run) as trace, pytest.raises(QueryError, match="Permission"):
        trace.sql("SELECT * FROM read_text('/etc/hostname')")
    with Trace(run) as trace:
        assert diagnose(trace).run.steps_recorded == 30


def test_a_folder_that_is_none_is_refused_in_one_line(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AnalyzerError, match="not a folder"):
        Trace(tmp_path / "pipe")
