"""Operators of an imported trace by exclusive time, module and phase; devices by the time in which anything ran on them."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.importers import import_files
from firstfault.reports.panels.device import device_panel
from firstfault.reports.panels.flame import flame_panel
from firstfault.reports.sections.device_use import device_facts

from .trace_text import event


def imported(tmp_path: Path, events: list[dict[str, Any]]) -> Trace:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    import_files([path], tmp_path / "run", "0")
    return Trace(tmp_path / "run")


def nested(draw: random.Random, tid: int, begin: int, end: int, depth: int, found: list[dict[str, Any]]) -> int:
    """Random operators inside of a stretch, and inside each other; the time that the outermost of them take."""
    taken = 0
    while end - begin > 4 and draw.random() < 0.8:
        start = draw.randrange(begin, end - 2)
        stop = draw.randrange(start + 1, end)
        name = f"op{draw.randrange(5)}"
        inside = nested(draw, tid, start, stop, depth + 1, found) if depth < 6 else 0
        found.append(event(name, float(start), float(stop - start), tid=tid, self=stop - start - inside))
        taken += stop - start
        begin = stop
    return taken


def test_exclusive_times_are_those_of_a_stack(tmp_path):
    draw = random.Random(3)
    found: list[dict[str, Any]] = []
    for tid in (1, 2, 3):
        nested(draw, tid, 0, 100_000, 0, found)
    truth: Counter[str] = Counter()
    for one in found:
        truth[one["name"]] += one.pop("self") * 1000
    assert len(found) > 30
    draw.shuffle(found)
    with imported(tmp_path, found) as trace:
        rows = trace.sql(
            "SELECT name, sum(self_ns)::BIGINT AS ns, sum(calls)::BIGINT AS calls FROM profiled_operators GROUP BY name"
        ).rows()
    assert {name: ns for name, ns, _ in rows} == truth
    assert sum(calls for *_, calls in rows) == len(found)


def profile() -> list[dict[str, Any]]:
    frame = {"cat": "python_function"}
    return [
        event("nn.Module: Model_0", 0.0, 100.0, **frame),
        event("nn.Module: Linear_3", 10.0, 50.0, **frame),
        event("aten::linear", 12.0, 40.0, args={"External id": 5}),
        event("aten::addmm", 20.0, 20.0, args={"External id": 6}),
        event("cudaLaunchKernel", 30.0, 5.0, cat="cuda_runtime", args={"External id": 6, "correlation": 9}),
        event("autograd::engine::evaluate_function: AddmmBackward0", 200.0, 30.0, tid=2),
        event("aten::mm", 205.0, 20.0, tid=2),
        event("Optimizer.step#Adam.step", 300.0, 50.0, cat="user_annotation"),
        event("aten::_foreach_add_", 310.0, 30.0),
        event("gemm", 40.0, 30.0, cat="kernel", pid=0, tid=7, args={"External id": 6, "correlation": 9}),
        event("ncclDevKernel_AllReduce", 60.0, 40.0, cat="kernel", pid=0, tid=9, args={"stream": 9}),
    ]


def test_operators_have_their_modules_and_phases(tmp_path):
    with imported(tmp_path, profile()) as trace:
        rows = trace.sql("SELECT name, module, phase, self_ns, step FROM operator_times ORDER BY name").rows()
        assert rows == [
            ("aten::_foreach_add_", None, "optimizer", 30_000, None),
            ("aten::addmm", "Model_0.Linear_3", "forward", 20_000, None),
            ("aten::linear", "Model_0.Linear_3", "forward", 20_000, None),
            ("aten::mm", None, "backward", 20_000, None),
            ("autograd::engine::evaluate_function: AddmmBackward0", None, "backward", 10_000, None),
        ]


def flame_tables(trace: Trace) -> tuple[dict[str, str], dict[str, list[dict[str, str]]], str]:
    """Facts, tables by their captions, and the chart as text."""
    panel = flame_panel(trace, 0, None, None)
    assert panel is not None
    tables = {
        caption: [dict(zip(grid.columns, row, strict=True)) for row in grid.rows] for caption, grid in panel.grids
    }
    return dict(panel.facts), tables, json.dumps(panel.chart)


def test_a_flame_graph_without_steps_calls_nothing_a_step_and_names_the_modules(tmp_path):
    with imported(tmp_path, profile()) as trace:
        facts, tables, chart = flame_tables(trace)
    assert facts["Profiled"] == "350 µs, no step is marked"
    assert "Profiled steps" not in facts
    assert "Whole profile, ms" in chart
    assert not [text for text in ("Profiled step", "of a step", '"step"') if text in chart]
    modules = tables["Modules, by the time of their own operators"]
    assert [(r["module"], r["time"]) for r in modules] == [("Model_0.Linear_3", "40 µs"), ("", "30 µs"), ("", "30 µs")]
    first, *_ = tables["Operators of the profile, by own time"]
    assert (first["operator"], first["calls"], first["own time"]) == ("aten::_foreach_add_", "1", "30 µs")


def test_operators_of_a_profile_of_one_step_have_a_table(tmp_path):
    step = event("ProfilerStep#7", 0.0, 350.0, cat="user_annotation")
    with imported(tmp_path, [*profile(), step]) as trace:
        _, tables, chart = flame_tables(trace)
    assert "Profiled step, ms" in chart
    rows = tables["Operators of the profiled steps, by own time"]
    assert ("aten::addmm", "Model_0.Linear_3 (Linear)", "1") in [
        (r["operator"], r["module"], r["calls a step"]) for r in rows
    ]


def test_the_host_is_told_by_its_own_clock_and_kernels_from_before_are_named(tmp_path):
    """The device begins with what the host launched before the profile, and ends after the host."""
    found = [
        event("ProfilerStep#7", 100.0, 100.0, cat="user_annotation"),
        event("aten::mm", 110.0, 50.0),
        event("cudaLaunchKernel", 120.0, 5.0, cat="cuda_runtime", args={"correlation": 9}),
        event("before", 105.0, 145.0, cat="kernel", pid=0, tid=7, args={"correlation": 3}),
        event("gemm", 250.0, 30.0, cat="kernel", pid=0, tid=7, args={"correlation": 9}),
    ]
    with imported(tmp_path, found) as trace:
        facts, tables, _ = flame_tables(trace)
        panel = device_panel(trace, 0, None, None)
    assert facts["A profiled step"] == "100 µs"
    assert facts["Share of between operators"] == "50.0%"
    (row,) = tables["Operators of the profiled steps, by own time"]
    assert row["of the step"] == "50.0%"
    assert panel is not None
    assert dict(panel.facts)["Profiled"] == "30 µs"
    assert dict(panel.facts)["Kernels"] == "1, 30 µs"
    assert dict(panel.facts)["Kernels of no profiled step, left out"] == "1, 145 µs"


def test_an_operator_that_every_other_step_calls_is_called_half_a_time_a_step(tmp_path):
    steps = [event(f"ProfilerStep#{n}", n * 100.0, 100.0, cat="user_annotation") for n in (1, 2)]
    with imported(tmp_path, [*steps, event("aten::mm", 110.0, 50.0)]) as trace:
        _, tables, _ = flame_tables(trace)
    (row,) = tables["Operators of the profiled steps, by own time"]
    assert (row["calls a step"], row["own time a step"]) == ("0.5", "25 µs")


def test_a_device_is_busy_once_however_many_kernels_run(tmp_path):
    with imported(tmp_path, profile()) as trace:
        use = trace.sql("SELECT step, kernels, kernel_ns, busy_ns, communication_ns, exposed_ns FROM device_use").rows()
        kernels = trace.sql("SELECT name, kind, operator FROM kernel_times ORDER BY name").rows()
        panel = device_panel(trace, 0, None, None)
        facts = device_facts(trace)
        verdict = diagnose(trace)
    assert use == [(None, 2, 70_000, 60_000, 40_000, 30_000)]
    assert kernels == [("gemm", "kernel", "aten::addmm"), ("ncclDevKernel_AllReduce", "communication", None)]
    assert panel is not None
    assert ("Device busy", f"{60 / 350:.1%}") in panel.facts
    assert facts.startswith("busy 17% of")
    assert "no step is marked" in facts
    (cause,) = [c for c in verdict.causes if c.name == "low-device-use"]
    assert cause.step is None
    assert "the whole profile, in which no step is marked" in cause.message
