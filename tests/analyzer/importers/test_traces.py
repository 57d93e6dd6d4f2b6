"""A profiler's trace becomes a run: every event, every key, of whole files and of broken ones."""

import gzip
import json
from pathlib import Path

import pytest
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import import_files, kineto, trace_pieces
from firstfault.analyzer.importers.event_columns import NUMBERS, OUTER, TEXTS, UNPARSED

from .trace_text import BASE, event, laid_out
from .trace_text import kineto as kineto_file


def imported(tmp_path: Path, *files: Path) -> Trace:
    out = tmp_path / "run"
    import_files(files, out, "0")
    return Trace(out)


def rows_of(trace: Trace, rank: int = 0) -> list[dict]:
    return trace.sql("FROM profiler_events WHERE rank = $rank ORDER BY window_id, event_id", {"rank": rank}).to_dicts()


def lost(given: dict, row: dict) -> list[str]:
    """Keys of an event that its row does not tell."""
    rest = json.loads(row["args_json"] or "{}")
    missing = []
    for key, value in given.items():
        if key == "ts":
            kept = abs(row["ts_ns"] - BASE_OF[0] - value * 1000) <= 1
        elif key == "dur":
            kept = abs(row["dur_ns"] - value * 1000) <= 1
        else:
            kept = key == "args" or row[OUTER[key]] == str(value)
        missing += [] if kept else [key]
    for key, value in given.get("args", {}).items():
        kept = key in NUMBERS and row[NUMBERS[key]] == value
        kept |= key in TEXTS and json.loads(row[TEXTS[key]] or "0") == value
        missing += [] if kept or value is None or (key in rest and rest[key] == value) else [key]
    return missing


BASE_OF = [BASE]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of a real training, with shapes, memory and stacks."""
    from torch.profiler import ProfilerActivity, profile, schedule

    path = tmp_path_factory.mktemp("real") / "real.pt.trace.json"
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=4, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(path)),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
    ) as profiler:
        for _ in range(7):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            profiler.step()
    return path


def test_every_event_and_every_key_of_a_real_trace_is_kept(real, tmp_path):
    whole = json.loads(real.read_text())
    BASE_OF[0] = whole["baseTimeNanoseconds"]
    try:
        with imported(tmp_path, real) as trace:
            rows = rows_of(trace)
            steps = trace.sql("SELECT step, step_ns, stepped, optimizer_ns FROM steps ORDER BY step").to_dicts()
        assert len(rows) == len(whole["traceEvents"])
        assert [lost(e, r) for e, r in zip(whole["traceEvents"], rows, strict=True) if lost(e, r)] == []
    finally:
        BASE_OF[0] = BASE
    assert [s["step"] for s in steps] == [2, 3, 4, 5]
    assert all(s["stepped"] and 0 < s["optimizer_ns"] < s["step_ns"] for s in steps)


def test_no_event_of_a_real_trace_is_read_one_by_one(real, tmp_path):
    trace = kineto.KinetoTrace(real)
    trace.write(tmp_path / "part.parquet", rank=0, window=0)
    assert trace.is_trace
    assert trace.one_by_one == 0


def test_a_run_of_a_trace_alone_is_inconclusive_and_says_why(real, tmp_path):
    with imported(tmp_path, real) as trace:
        verdict = diagnose(trace)
    assert verdict.verdict == "inconclusive"
    assert "neither losses, gradient norms nor tensors" in " ".join(n.why for n in verdict.not_evaluable)
    assert verdict.causes == []


@pytest.mark.parametrize("share", [0.03, 0.2, 0.37, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_breaks_off_keeps_every_whole_event(real, tmp_path, share, packed):
    raw = real.read_bytes()
    cut = raw[: int(len(raw) * share)]
    path = tmp_path / ("cut.json.gz" if packed else "cut.json")
    path.write_bytes(gzip.compress(cut)[:-3] if packed else cut)
    whole = cut.count(b"\n  },\n  {") + cut.rstrip().rstrip(b",").endswith(b"\n  }")
    with imported(tmp_path, path) as trace:
        rows = rows_of(trace)
        said = trace.sql("SELECT message FROM events WHERE event = 'trace-cut'")["message"].to_list()
    assert len(rows) in {whole, whole + 1}  # the packed file may give some bytes less
    assert all(row["name"] for row in rows)
    assert len(said) == 1


def test_pieces_are_put_together_without_loss_wherever_they_are_cut(tmp_path, monkeypatch):
    events = [event(f"op{i}", float(i), args={"External id": i, "note": f'a "quoted": {i}'}) for i in range(300)]
    path = kineto_file(tmp_path / "t.json", events)
    for size in (97, 331, 1024, 5000):
        monkeypatch.setattr(trace_pieces, "PIECE", size)
        with imported(tmp_path / str(size), path) as trace:
            rows = rows_of(trace)
        assert [lost(e, r) for e, r in zip(events, rows, strict=True) if lost(e, r)] == []
        assert [r["event_id"] for r in rows] == list(range(300))


def test_keys_that_nobody_knows_are_kept(tmp_path):
    odd = [
        event("a", 1.0, args={"bytes": 5, "memory bandwidth (GB/s)": 1.5}),
        event("b", 2.0, args={"Bytes": 6, "grid": [1, 2, 3], "Ev Idx": None}),
        event("c", 3.0, args={"bytes": 7, "Bytes": 8, "nested": {"x": [1, {"y": None}]}}),
        event("d", 4.0, args={"External id": 2**70, "stream": "seven", "Input Dims": "none"}),
        event("e", 5.0, tts=17, args={"": 1, "a'b\"c": 2, "ключ": 3, "GRID": 4}),
        {**event("f", 6.0), "args": 3},
    ]
    with imported(tmp_path, kineto_file(tmp_path / "t.json", odd[:5])) as trace:
        rows = rows_of(trace)
    assert lost(odd[0], rows[0]) == lost(odd[1], rows[1]) == lost(odd[3], rows[3]) == []
    kept = json.loads(rows[2]["args_json"])
    assert rows[2]["bytes"] == 7
    assert (kept["Bytes"], kept["nested"]) == (8, {"x": [1, {"y": None}]})
    assert json.loads(rows[4]["args_json"]) == {"event.tts": 17, **odd[4]["args"]}
    (tmp_path / "array.json").write_text(json.dumps(odd))
    with imported(tmp_path / "b", tmp_path / "array.json") as trace:
        assert json.loads(rows_of(trace)[5]["args_json"]) == {"event.args": 3}


def test_an_event_that_is_no_json_is_kept_as_text(tmp_path):
    path = kineto_file(tmp_path / "t.json", [event(f"op{i}", float(i)) for i in range(4)])
    path.write_text(path.read_text().replace('"name": "op2"', '"name": "op"2"'))
    with imported(tmp_path, path) as trace:
        rows = rows_of(trace)
        said = trace.sql("SELECT message FROM events WHERE event = 'trace-unreadable-events'")["message"].to_list()
    assert [r["name"] for r in rows] == ["op0", "op1", None, "op3"]
    assert '"op"2"' in json.loads(rows[2]["args_json"])[UNPARSED]
    assert said == ["1 events of t.json are no valid JSON; their text stands in args_json."]


@pytest.mark.parametrize("form", ["array", "open array", "compact", "indented", "events last"])
def test_other_layouts_keep_every_event(tmp_path, form):
    events = [
        event("ProfilerStep#3", 0.0, 100.0, cat="user_annotation"),
        *(event(f"op{i}", i * 10.0) for i in range(9)),
    ]
    text = {
        "array": json.dumps(events),
        "open array": json.dumps(events).removesuffix("]") + ",\n",
        "compact": json.dumps({"traceEvents": events, "baseTimeNanoseconds": 0}, separators=(",", ":")),
        "indented": json.dumps({"traceEvents": events}, indent=4),
        "events last": json.dumps({"displayTimeUnit": "ms", "baseTimeNanoseconds": 0, "traceEvents": events}),
    }[form]
    path = tmp_path / "t.json"
    path.write_text(text)
    BASE_OF[0] = 0
    try:
        with imported(tmp_path, path) as trace:
            rows = rows_of(trace)
            steps = trace.sql("SELECT step, step_ns FROM steps").rows()
        assert [lost(e, r) for e, r in zip(events, rows, strict=True) if lost(e, r)] == []
    finally:
        BASE_OF[0] = BASE
    assert steps == [(3, 100_000)]
    assert {r["step"] for r in rows} == {3}


def test_files_of_several_ranks_become_ranks_of_one_run(tmp_path):
    files = [
        kineto_file(
            tmp_path / f"{rank}.json", [event(f"of{rank}", 1.0)], distributedInfo={"rank": rank, "world_size": 3}
        )
        for rank in (2, 0)
    ]
    files.append(kineto_file(tmp_path / "unnamed.json", [event("unnamed", 1.0)]))
    with imported(tmp_path, *files) as trace:
        assert [[r["name"] for r in rows_of(trace, rank)] for rank in range(3)] == [["of0"], ["unnamed"], ["of2"]]
        assert trace.manifest.world_size == 3


def test_two_windows_of_one_rank_stay_apart(tmp_path):
    about = {"distributedInfo": {"rank": 0, "world_size": 1}}
    files = [
        kineto_file(tmp_path / f"{n}.json", [event(f"ProfilerStep#{n}", n * 1e3, 50.0, cat="user_annotation")], **about)
        for n in (1, 9)
    ]
    with imported(tmp_path, *files) as trace:
        assert [(r["window_id"], r["event_id"], r["step"]) for r in rows_of(trace)] == [(0, 0, 1), (1, 0, 9)]
        assert trace.sql("SELECT step FROM steps ORDER BY step")["step"].to_list() == [1, 9]


def test_what_cannot_be_true_is_kept_and_said(tmp_path):
    events = [
        event("negative", 100.0, -5.0),
        event("outer", 200.0, 50.0),
        event("crossing", 240.0, 50.0),
        event("cudaLaunchKernel", 300.0, 5.0, cat="cuda_runtime", args={"correlation": 7}),
        event("gemm", 280.0, 5.0, cat="kernel", pid=0, tid=7, args={"correlation": 7, "stream": 7}),
    ]
    with imported(tmp_path, kineto_file(tmp_path / "t.json", events)) as trace:
        said = trace.sql("SELECT message FROM events WHERE event = 'trace-doubtful'")["message"].to_list()
        assert len(rows_of(trace)) == 5
    assert [m.split(", first ")[1].split(":")[0] for m in said] == ["negative", "gemm", "crossing"]


def test_nothing_is_overwritten_and_a_failure_leaves_nothing(tmp_path):
    path = kineto_file(tmp_path / "t.json", [event("op", 1.0)])
    out = tmp_path / "taken"
    out.mkdir()
    (out / "mine").write_text("mine")
    with pytest.raises(ImportFileError, match="nothing is overwritten"):
        import_files([path], out, "0")
    assert [p.name for p in out.iterdir()] == ["mine"]
    bad = tmp_path / "bad.bin"
    bad.write_bytes(b"neither this nor that")
    for missing in (bad, tmp_path / "nowhere.json"):
        with pytest.raises(ImportFileError, match=missing.name):
            import_files([path, missing], tmp_path / "new", "0")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.bin", "t.json", "taken"]


def test_names_that_look_like_sql_or_paths_do_nothing(tmp_path):
    name = "'); DROP TABLE steps; --../../<script>"
    path = kineto_file(tmp_path / "it's [odd]*.json", [event(name, 1.0, args={name: name})])
    assert laid_out(event(name, 1.0)).count("DROP") == 1
    with imported(tmp_path, path) as trace:
        (row,) = rows_of(trace)
    assert row["name"] == name
    assert json.loads(row["args_json"]) == {name: name}
