"""Files beside the trace of a profiler: execution traces, memory timelines; and memory within a trace."""

import gzip
import json
from pathlib import Path

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import import_files
from firstfault.reports.panels import reduce_panels
from firstfault.reports.sections.findings import reduce_headline


def imported(path: Path, tmp_path: Path) -> Trace:
    import_files([path], tmp_path / "run", "0")
    return Trace(tmp_path / "run")


def test_a_raw_memory_timeline_gives_peak_and_categories(tmp_path):
    path = tmp_path / "memory.raw.gz"
    changes = [
        [-1, 1, 100, 0],
        [10**15, 2, 300, 4],
        [10**15 + 5, 3, -300, 4],
        [10**15 + 5, 3, 200, 5],
        [10**15 + 9, 4, -200, 5],
    ]
    path.write_bytes(gzip.compress(json.dumps(changes).encode()))
    with imported(path, tmp_path) as trace:
        rows = trace.sql("SELECT change, held_bytes, owner FROM memory_changes ORDER BY event_id").rows()
        peak = trace.sql("SELECT peak_bytes, last_bytes FROM profiled_memory").row(0)
        headline = reduce_headline(diagnose(trace))
        keys = [panel.key for panel in reduce_panels(trace, 0, None, None)]
    assert rows == [
        (100, 100, "parameter"), (300, 400, "activation"), (-300, 100, "activation"),
        (200, 300, "gradient"), (-200, 100, "gradient"),
    ]  # fmt: skip
    assert peak == (400, 100)
    assert headline.title == "Nothing found; no step is marked in these files"
    assert "400 bytes" in headline.message
    assert "profile_memory" in keys


def test_both_forms_of_a_memory_timeline_say_the_same(tmp_path):
    moments = [10**12, 10**12 + 5, 10**12 + 9]
    sizes = [[0, 100, 0, 0, 0, 0, 0, 0, 0], [0, 100, 0, 0, 0, 300, 0, 0, 0], [0, 100, 0, 0, 0, 0, 0, 0, 0]]
    path = tmp_path / "memory.json"
    path.write_text(json.dumps([moments, sizes]))
    with imported(path, tmp_path) as trace:
        rows = trace.sql("SELECT time_ns, change, owner FROM memory_changes ORDER BY event_id").rows()
    assert rows == [
        (10**15, 100, "parameter"), (10**15 + 5000, 300, "activation"), (10**15 + 9000, -300, "activation"),
    ]  # fmt: skip


def test_a_timeline_that_is_a_picture_says_what_to_export(tmp_path):
    path = tmp_path / "memory.html"
    path.write_text(
        "<html><head><title>GPU Memory Timeline HTML</title></head><body>\n  <img src='data:image/png;base64,iVBOR'>"
    )
    with pytest.raises(ImportFileError, match=r"memory\.html.*nothing but a picture.*\.json or \.raw"):
        import_files([path], tmp_path / "run", "0")


OLD = {"name": "aten::mm", "id": 5, "rf_id": 3, "parent": 4, "fw_parent": 0, "seq_id": 7, "scope": 0, "tid": 1, "fw_tid": 0,
       "inputs": [[6, 7]], "input_shapes": [[2, 3]], "input_types": ["Tensor(float)"], "outputs": [], "ctrl_deps": 4}  # fmt: skip
NEW = {"id": 5, "name": "aten::mm", "ctrl_deps": 4,
       "inputs": {"values": [[6, 7]], "shapes": [[2, 3]], "types": ["Tensor(float)"]},
       "outputs": {"values": [], "shapes": [], "types": []},
       "attrs": [{"name": "rf_id", "type": "uint64", "value": 3}, {"name": "seq_id", "type": "int64", "value": 7},
                 {"name": "fw_parent", "type": "uint64", "value": 0}, {"name": "tid", "type": "uint64", "value": 1}]}  # fmt: skip


@pytest.mark.parametrize(("schema", "node"), [("1.0.1", OLD), ("1.1.0-chakra.0.0.4", NEW)])
def test_an_execution_trace_of_any_schema_gives_its_operators(tmp_path, schema, node):
    process = {"name": "[pytorch|profiler|execution_trace|process]", "id": 1, "ctrl_deps": 1}
    path = tmp_path / "et.json"
    path.write_text(json.dumps({"schema": schema, "pid": 1, "nodes": [process, node]}))
    with imported(path, tmp_path) as trace:
        rows = trace.sql(
            "SELECT name, record_function_id, seq_nr, input_dims, input_types, ts_ns FROM profiler_events"
        ).rows()
        headline = reduce_headline(diagnose(trace))
    assert rows == [("aten::mm", 3, 7, "[[2, 3]]", '["Tensor(float)"]', None)]
    assert "an execution trace has no times" in headline.message


def call(
    op: str, number: int, rank: int, *, numel: int = 8, group: tuple[str, str] = ("0", "default_pg"), world: int = 2
):
    """A node of an execution trace for a call between ranks."""
    values = [[[1, 2, 0, numel, 4, "cuda:0"]], number, list(group), rank, op, [], [], 0, 1, world]
    types = ["GenericList[Tensor(float)]", "Int", "Tuple[String,String]", *["Int"] * 7]
    return {**NEW, "name": "record_param_comms", "inputs": {"values": values, "shapes": [], "types": types}}


def execution_trace(path, calls: list[dict]) -> None:
    wait = [33, ["", ""], 1, "wait", [], [], -1, -1, 1]
    waits = {**NEW, "name": "record_param_comms", "inputs": {"values": wait, "shapes": [], "types": ["Int"]}}
    path.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": [NEW, *calls, waits]}))


def test_an_execution_trace_tells_the_calls_between_ranks(tmp_path):
    execution_trace(
        tmp_path / "et.json",
        [
            call("broadcast", 33, 0, numel=53),
            call("allreduce", 34, 1),
            call("_allgather_base", 2, 1, group=("4", "mesh_tp")),
            call("allreduce", 1, 1, world=1, group=("7", "alone")),
            {**call("x", 1, 1), "inputs": [1, 2]},
        ],
    )
    with imported(tmp_path / "et.json", tmp_path) as trace:
        found = trace.sql(
            'SELECT rank, "group", number, op, peer, dtype, numel, blocking FROM collectives ORDER BY seq'
        ).rows()
    assert found == [
        (1, "default", 33, "broadcast", 0, "float32", 53, None),
        (1, "default", 34, "all_reduce", None, "float32", 8, None),
        (1, "mesh_tp (4) of ranks 0-1", 2, "all_gather_into_tensor", None, "float32", 8, None),
    ]


@pytest.mark.parametrize(("other", "named"), [("allreduce", []), ("broadcast", ["collective-mismatch"])])
def test_execution_traces_of_ranks_that_part_in_their_calls_are_named(tmp_path, other, named):
    for rank, third in ((0, "allreduce"), (1, other)):
        # they need not begin at the same call
        calls = [call("allreduce", number, rank) for number in range(30 + 2 * rank, 36)] + [call(third, 36, rank)]
        execution_trace(tmp_path / f"et{rank}.json", calls)
    import_files([tmp_path / "et0.json", tmp_path / "et1.json"], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT DISTINCT rank FROM collectives ORDER BY rank")["rank"].to_list() == [0, 1]
        verdict = diagnose(trace)
    assert [finding.name for finding in verdict.causes] == named


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"rocprofiler-sdk-tool": [{"metadata": {}}]}', "a result of rocprof"),
        ('{"workload_graph": [{"Id": 1}]}', "a simulator's"),
    ],
)
def test_a_file_of_another_tool_is_called_by_its_name(tmp_path, text, what):
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ImportFileError, match=what):
        import_files([tmp_path / "other.json"], tmp_path / "run", "0")


def test_an_output_that_is_kept_each_step_is_named_by_the_operator_that_made_it(tmp_path):
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    path, kept = tmp_path / "trace.json", []
    model = torch.nn.Linear(64, 64)
    with profile(
        activities=[ProfilerActivity.CPU],
        profile_memory=True,
        schedule=schedule(wait=1, warmup=1, active=5),
        on_trace_ready=lambda p: p.export_chrome_trace(str(path)),
    ) as profiler:
        for _ in range(7):
            kept.append(model(torch.randn(512, 64)))
            profiler.step()
    with imported(path, tmp_path) as trace:
        (cause,) = [c for c in diagnose(trace).causes if c.name == "profiled-memory-growth"]
    assert "262.1 kB larger after each of 5 profiled steps" in cause.message
    assert "from aten::addmm" in cause.message


def test_a_profile_without_steps_and_without_findings_says_that_it_was_judged_as_a_whole(tmp_path):
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 100.0, "dur": 5000.0}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    with imported(path, tmp_path) as trace:
        headline = reduce_headline(diagnose(trace))
    assert headline.title == "Nothing found in the whole profile of 5 ms: no step is marked"
