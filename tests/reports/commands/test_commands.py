"""diagnose and report as a shell sees them: exit status, what goes to which stream, what is never overwritten."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from firstfault.application import build_app
from firstfault.reports.commands import diagnose, report
from typer.testing import CliRunner


@pytest.fixture
def app() -> typer.Typer:
    return build_app()


def run(app: typer.Typer, *args: str) -> Any:
    return CliRunner().invoke(app, list(args), catch_exceptions=False)


@pytest.fixture
def verdict_is(monkeypatch: pytest.MonkeyPatch, make_verdict: Any) -> Any:
    """Fix what the analyzer says: these tests are about the command round it."""

    def fix(conclusion: str, **values: Any) -> None:
        for command in (diagnose, report):
            monkeypatch.setattr(
                command, "diagnose", lambda trace, _rules: make_verdict(conclusion, path=trace.path, **values)
            )

    return fix


@pytest.mark.parametrize(("conclusion", "status"), [("healthy", 0), ("anomalous", 1), ("inconclusive", 3)])
def test_the_exit_status_of_diagnose_is_the_verdict(app, broken_run, verdict_is, conclusion, status):
    verdict_is(conclusion)
    assert run(app, "diagnose", str(broken_run.write())).exit_code == status


def test_the_terminal_verdict_says_step_module_cause_and_fix_in_about_ten_lines(app, broken_run, verdict_is):
    verdict_is("anomalous")
    out = run(app, "diagnose", str(broken_run.write())).stdout
    assert "ANOMALOUS" in out
    assert "Step 30: fully masked attention row in blocks.0.attn" in out
    assert "NU004 fully-masked-attention-row" in out
    assert "Leave at least one key unmasked" in out
    assert "full_rows 64" in out
    assert "firstfault report" in out
    assert len(out.strip().splitlines()) <= 16


def test_markup_in_a_name_is_printed_and_not_obeyed(app, broken_run, verdict_is, make_finding):
    verdict_is(
        "anomalous", causes=[make_finding(message="[bold red]layer[/bold red] \x1b[2J gave NaN", module="[link=x]m[/]")]
    )
    out = run(app, "diagnose", str(broken_run.write())).stdout
    assert "[bold red]layer[/bold red]" in out
    assert "\x1b[2J" not in out


def test_json_is_the_contract_and_null_never_stands_for_nan(app, broken_run, verdict_is):
    verdict_is("anomalous")
    done = run(app, "diagnose", "--json", str(broken_run.write()))
    verdict = json.loads(done.stdout, parse_constant=pytest.fail)
    assert verdict["first_anomaly"]["value"] == "NaN"
    assert verdict["causes"][0]["evidence"][0]["max"] == "Infinity"
    first = verdict["causes"][0]
    assert (first["confidence"] is None) == (first["confidence_cases"] == 0)
    assert {"schema_version", "run", "verdict", "first_anomaly", "causes", "symptoms", "not_evaluable"} <= set(verdict)


@pytest.mark.parametrize("command", ["diagnose", "report"])
def test_a_folder_that_is_no_run_is_one_clear_line_and_status_2(app, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("missing", "empty"):
        done = run(app, command, name)
        assert done.exit_code == 2
        assert done.stdout == ""
        assert done.stderr.startswith(f"firstfault: {name}: ")
        assert len(done.stderr.strip().splitlines()) <= 2


def test_a_damaged_manifest_is_named_and_the_rest_is_judged(app, broken_run):
    path = broken_run.write()
    (path / "run.json").write_text("{")
    done = run(app, "diagnose", str(path), "--json")
    assert done.exit_code in {1, 3}
    assert "run.json" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_folder_with_one_run_means_that_run(app, broken_run, verdict_is):
    verdict_is("healthy")
    path = broken_run.write()
    done = run(app, "diagnose", str(path.parent))
    assert done.exit_code == 0
    assert "the only run" in done.stderr


def test_a_folder_with_several_runs_lists_them_and_takes_none(app, run_folder):
    first, second = run_folder("a").write(), run_folder("b").write()
    done = run(app, "diagnose", str(first.parent))
    assert done.exit_code == 2
    assert str(first) in done.stderr
    assert str(second) in done.stderr


def test_without_a_name_the_newest_run_is_taken_and_said(app, tmp_path, monkeypatch, verdict_is, run_folder):
    verdict_is("healthy")
    monkeypatch.chdir(tmp_path)
    run_folder("firstfault-runs/old").write()
    newest = run_folder("firstfault-runs/new").write()
    manifest = newest / "run.json"
    import os

    os.utime(manifest, ns=(2**61, 2**61))
    done = run(app, "diagnose")
    assert done.exit_code == 0
    assert "firstfault-runs/new" in done.stderr


def test_a_report_goes_where_it_was_asked_and_its_path_is_printed(app, broken_run, verdict_is, tmp_path):
    verdict_is("anomalous")
    target = tmp_path / "sub folder" / "page.html"
    done = run(app, "report", str(broken_run.write()), "-o", str(target))
    assert done.exit_code == 0
    assert done.stdout.strip() == str(target)
    assert target.read_text().startswith("<!doctype html>")


def test_a_report_tells_machines_its_path_and_verdict(app, broken_run, verdict_is, tmp_path):
    verdict_is("healthy")
    target = tmp_path / "page.html"
    done = run(app, "report", str(broken_run.write()), "--out", str(target), "--json")
    assert json.loads(done.stdout) == {"report": str(target), "verdict": "healthy", "left_out": []}
    assert target.exists()


def test_a_report_replaces_its_own_page_but_no_strangers_file(app, broken_run, verdict_is, tmp_path):
    verdict_is("healthy")
    path, target = str(broken_run.write()), tmp_path / "page.html"
    assert run(app, "report", path, "-o", str(target)).exit_code == 0
    assert run(app, "report", path, "-o", str(target)).exit_code == 0
    target.write_text("my thesis")
    done = run(app, "report", path, "-o", str(target))
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert target.read_text() == "my thesis"
    assert run(app, "report", path, "-o", str(target), "--force").exit_code == 0
    assert "my thesis" not in target.read_text()


def test_a_report_that_cannot_be_written_is_one_clear_line(app, broken_run, verdict_is, tmp_path):
    verdict_is("healthy")
    (tmp_path / "file").write_text("")
    done = run(app, "report", str(broken_run.write()), "-o", str(tmp_path / "file" / "page.html"))
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_page_of_a_million_steps_is_no_larger_than_one_of_ten_thousand(broken_run, run_folder, make_verdict):
    import polars as pl
    from firstfault.reports.charts.curves_and_health import curves_chart
    from firstfault.reports.sections.curves import reduce_curves

    def size(steps: int) -> int:
        number = pl.int_range(steps, eager=True)
        values = ((number * 7919) % 1000).cast(pl.Float64) / 1000
        frame = pl.DataFrame({"step": number, "loss": values, "grad_norm": values, "update_ratio": values})
        frame = frame.with_columns(pl.lit(math.nan).alias("clip_norm"), pl.lit(10**7).alias("step_ns"))
        groups = pl.DataFrame({"step": number, "lr": values}).with_columns(
            pl.lit(0).alias("optimizer_id"), pl.lit(0).alias("group_id")
        )
        return len(
            json.dumps(curves_chart(reduce_curves(frame, frame.select("step", "loss"), groups, steps // 2), steps // 2))
        )

    assert size(1_000_000) < 1.2 * size(10_000)


def test_help_and_diagnose_load_neither_torch_nor_the_chart_libraries(broken_run):
    code = (
        "import sys\nfrom firstfault.application import build_app\nbuild_app()\n"
        "print([m for m in ('torch', 'altair', 'vl_convert') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.home())
    assert done.stdout.strip() == "[]"


def test_output_is_still_understood_for_out(app, broken_run, verdict_is, tmp_path):
    verdict_is("healthy")
    path = str(broken_run.write())
    assert run(app, "report", path, "--output", str(tmp_path / "page.html")).exit_code == 0
    assert (tmp_path / "page.html").exists()
    assert "--output" not in run(app, "report", "--help").output


def test_every_command_that_writes_spells_its_options_alike(app):
    spelt = {
        name: {option for p in command.params for option in p.opts if option.startswith("-")}
        for name, command in typer.main.get_command(app).commands.items()
    }
    writing = {name for name, options in spelt.items() if "--out" in options}
    assert writing == {"preflight", "run", "report", "compare", "batch", "mre", "import", "export", "demo"}
    assert all("-o" in spelt[name] for name in writing)
    assert all("--debug" in options for options in spelt.values())
    # the output of `run` is the script's, its closing line is the recorder's: English, as what it writes
    assert {name for name, options in spelt.items() if not {"--json", "--lang"} <= options} == {"run"}
    # the others write a folder of a run, and none is ever made over another
    assert {name for name in writing if "--force" in spelt[name]} == {"report", "compare", "batch", "mre", "export"}
    assert not any("--output" in options for options in spelt.values())
