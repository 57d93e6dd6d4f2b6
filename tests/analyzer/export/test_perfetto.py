"""A run as a trace: valid JSON with every track, which import reads again."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.export.perfetto import export_trace
from firstfault.analyzer.importers import import_files
from firstfault.analyzer.rule_cases.case_tables import exit_record, filled, manifest, write_part
from firstfault.application import build_app
from firstfault.schemas import write_json
from firstfault.schemas.files.layout import EXIT_JSON, RUN_JSON
from typer.testing import CliRunner

START = 1_700_000_000_000_000_000
MS = 1_000_000


def run_folder(tmp_path: Path, *, ranks: int = 1, **tables: list[dict[str, Any]]) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    write_json(run / RUN_JSON, manifest(world_size=ranks))
    write_json(run / EXIT_JSON, exit_record())
    for table, rows in tables.items():
        for rank in range(ranks):
            write_part(run, table, [{**row, "rank": rank} for row in filled(table, rows)], rank=rank)
    return run


def steps(n: int, **columns: Any) -> list[dict[str, Any]]:
    return [
        {
            "step": i,
            "time_ns": START + (i + 1) * 10 * MS,
            "step_ns": 9 * MS,
            "loss": 1.0 / (i + 1),
            "forward_ns": 3 * MS,
            **columns,
        }
        for i in range(n)
    ]


def exported(run: Path, out: Path) -> list[dict[str, Any]]:
    with Trace(run) as trace:
        count = export_trace(trace, out)
    whole = json.loads(gzip.decompress(out.read_bytes()) if out.suffix == ".gz" else out.read_bytes())
    assert len(whole["traceEvents"]) == count
    return whole["traceEvents"]


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_steps_phases_curves_and_events_are_tracks(tmp_path, name):
    rows = steps(12, rss_bytes=1000, backward_ns=2 * MS)
    rows[7]["loss"] = math.nan
    happened = [{"step": 3, "time_ns": START + 35 * MS, "event": "warning", "message": 'odd "name" </script>'}]
    events = exported(run_folder(tmp_path, steps=rows, events=happened), tmp_path / name)
    bars = [e for e in events if e["name"].startswith("ProfilerStep#")]
    assert [(e["ts"], e["dur"]) for e in bars] == [(i * 10_000 + 1000, 9000) for i in range(12)]
    assert bars[7]["args"]["loss"] == "nan"
    assert [e["ts"] for e in events if e["name"] == "backward"] == [e["ts"] + 3000 for e in bars]
    assert len([e for e in events if e["ph"] == "C" and e["name"] == "loss"]) == 11
    assert [e["args"]["message"] for e in events if e.get("cat") == "event"] == ['odd "name" </script>']
    assert [e["name"] for e in events if e.get("cat") == "finding"] == [
        "cause: unexplained-nonfinite",
        "symptom: nonfinite-tensor",
    ]


def test_what_is_exported_is_imported_again(tmp_path):
    run = run_folder(tmp_path, steps=steps(20), param_groups=[{"step": i} for i in range(20)])
    events = exported(run, tmp_path / "trace.json")
    import_files([tmp_path / "trace.json"], tmp_path / "again", "0")
    with Trace(run) as one, Trace(tmp_path / "again") as two:
        query = "SELECT step, time_ns, step_ns FROM steps ORDER BY step"
        assert one.sql(query).rows() == two.sql(query).rows()
        assert two.sql("SELECT count(*) FROM profiler_events").item() == len(events)
        assert two.sql("SELECT count(*) FROM events WHERE event = 'trace-doubtful'").item() == 0


def test_a_profilers_events_come_out_as_they_went_in(tmp_path):
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    path = tmp_path / "real.json"
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(path)),
        record_shapes=True,
        profile_memory=True,
    ) as profiler:
        for _ in range(3):
            torch.randn(4, 4).mm(torch.randn(4, 4))
            profiler.step()
    given = json.loads(path.read_text())
    import_files([path], tmp_path / "run", "0")
    events = exported(tmp_path / "run", tmp_path / "trace.json")
    shift = (
        json.loads((tmp_path / "trace.json").read_text())["baseTimeNanoseconds"] - given["baseTimeNanoseconds"]
    ) / 1000

    came_out = events[-len(given["traceEvents"]) :]
    for before, after in zip(given["traceEvents"], came_out, strict=True):
        assert after["ts"] + shift == pytest.approx(before["ts"], abs=0.0015)
        assert after.get("dur") == pytest.approx(before.get("dur"))
        apart = {"id": str(before["id"])} if "id" in before else {}
        assert {**before, **apart, "ts": 0, "dur": 0} == {**after, "ts": 0, "dur": 0}


def test_a_run_without_times_is_drawn_with_a_millisecond_a_step(tmp_path):
    run = run_folder(tmp_path, steps=[{"step": 10 * i, "loss": 1.0} for i in range(3)])
    events = exported(run, tmp_path / "trace.json")
    assert [e["ts"] for e in events if e["name"].startswith("ProfilerStep#")] == [0.0, 10_000.0, 20_000.0]
    assert "not known" in json.loads((tmp_path / "trace.json").read_text())["firstfault_times"]


def test_ranks_are_processes(tmp_path):
    events = exported(run_folder(tmp_path, ranks=2, steps=steps(5)), tmp_path / "trace.json")
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["rank 0", "rank 1"]
    assert len([e for e in events if e["pid"] == 1 and e["name"].startswith("step ")]) == 5
    import_files([tmp_path / "trace.json"], tmp_path / "again", "0")
    with Trace(tmp_path / "again") as trace:
        assert trace.sql("SELECT count(*) FROM steps").item() == 5


def test_nothing_is_overwritten_unless_asked(tmp_path):
    run = run_folder(tmp_path, steps=steps(5))
    (tmp_path / "trace.json").write_text("mine")
    with Trace(run) as trace, pytest.raises(ImportFileError, match="is there already"):
        export_trace(trace, tmp_path / "trace.json")
    assert (tmp_path / "trace.json").read_text() == "mine"


def test_the_commands_say_what_they_did_and_what_is_wrong(tmp_path):
    run = run_folder(tmp_path, steps=steps(5))
    out, again = str(tmp_path / "t.json"), str(tmp_path / "again")
    done = CliRunner().invoke(build_app("export"), ["export", str(run), "--out", out])
    assert (done.exit_code, done.stdout.strip()) == (0, out)
    done = CliRunner().invoke(build_app("import"), ["import", out, "--out", again])
    assert (done.exit_code, done.stdout.strip()) == (0, again)
    for app, words in (
        ("import", [out, "--out", again]),
        ("export", [str(run), "--out", out]),
        ("export", [out, "--out", "x"]),
    ):
        done = CliRunner().invoke(build_app(app), [app, *words])
        assert done.exit_code == 2
        assert done.stderr.startswith("firstfault: ")
        assert len(done.stderr.splitlines()) == 1


def test_as_json_the_commands_name_what_was_written_and_what_it_holds(tmp_path):
    run = run_folder(tmp_path, steps=steps(5))
    out, again = str(tmp_path / "t.json"), str(tmp_path / "again")
    done = CliRunner().invoke(build_app("export"), ["export", str(run), "--out", out, "--json"])
    written = json.loads(done.stdout)
    assert (done.stderr, written["to"]) == ("", out)
    assert written["events"] > 5
    done = CliRunner().invoke(build_app("import"), ["import", out, "--out", again, "--json"])
    imported = json.loads(done.stdout)
    assert (done.stderr, imported["run"], [f["file"] for f in imported["files"]]) == ("", again, [out])
    assert imported["files"][0]["held"]


def test_an_imported_trace_goes_round_without_loss(tmp_path):
    args = {"device": 3, "stream": 7, "correlation": 12, "bytes": 64, "grid": [1, 2, 3]}
    given = [
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 3, "tid": 7, "ts": 4203669613175.703, "dur": 0.001,
         "args": args},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 12, "pid": 1, "tid": 1, "ts": 4203669613170.001},
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t", "pid": 1, "tid": 1, "ts": 4203669613171.5,
         "args": {"Device Type": 1, "Device Id": 3, "Bytes": 512, "Addr": 99, "Total Allocated": 512, "Total Reserved": 1024}},
    ]  # fmt: skip
    header = {"deviceProperties": [{"id": 3, "name": "H100"}], "baseTimeNanoseconds": START}
    (tmp_path / "t.json").write_text(json.dumps({**header, "traceEvents": given}))
    import_files([tmp_path / "t.json"], tmp_path / "a", "0")
    with Trace(tmp_path / "a") as trace:
        before = trace.sql("FROM profiler_events ORDER BY event_id")
        export_trace(trace, tmp_path / "again.json")
    text = (tmp_path / "again.json").read_text()
    again = json.loads(text)
    assert again["deviceProperties"] == header["deviceProperties"]
    events = [e for e in again["traceEvents"] if e["name"] in {"Memcpy HtoD", "ac2g", "[memory]"}]
    assert [e.get("args", {}) for e in events] == [args, {}, given[2]["args"]]
    assert events[1]["id"] == 12
    assert '"dur": 0.001' in text
    import_files([tmp_path / "again.json"], tmp_path / "b", "0")
    with Trace(tmp_path / "b") as trace:
        after = trace.sql("FROM profiler_events WHERE name IN ('Memcpy HtoD', 'ac2g', '[memory]') ORDER BY event_id")
    assert after.drop("event_id", "window_id").equals(before.drop("event_id", "window_id"))
