"""The folded panels: what each counts, that it is absent where nothing was recorded, and that the browser draws all."""

import pytest
from firstfault.analyzer import Trace
from firstfault.reports.page.render import write_page
from firstfault.reports.panels import reduce_panels
from firstfault.schemas import Phase


def panels_of(run, around=None, suspect=None):
    with Trace(run.write()) as trace:
        return {p.key: p for p in reduce_panels(trace, 0, around, suspect)}


def grid(panel, caption):
    table = dict(panel.grids)[caption]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


@pytest.fixture
def full_run(run_folder):
    """Twenty steps with parts of the time, two groups, labels, growing memory and a second rank that waits."""
    run = run_folder()
    run.module(0, "first", class_name="Linear")
    run.module(1, "last", class_name="Linear")
    for step in range(20):
        slow = step == 13
        parts = {"data_wait_ns": 55_000_000 if slow else 5_000_000, "forward_ns": 4_000_000, "backward_ns": 8_000_000}
        run.step(
            step,
            step_ns=70_000_000 if slow else 20_000_000,
            optimizer_ns=1_000_000,
            rss_bytes=400_000_000 + step * 1_000_000,
            clip_norm=2.0,
            clip_max_norm=1.0,
            **parts,
        )
        run.add("param_groups", step=step, optimizer_id=0, group_id=1, optimizer="AdamW", lr=1e-4 * (step + 1))
        run.add("steps", rank=1, step=step, loss=3.0, step_ns=20_000_000, completed=True)
        run.add(
            "collectives", rank=1, step=step, seq=0, group="default", number=step, op="all_reduce", waited_ns=3_000_000
        )
        counts = [0, 12] if slow else [6, 6]
        run.add(
            "batches",
            step=step,
            seq=0,
            microbatch=0,
            phase=int(Phase.DATA),
            field="y",
            role="target",
            batch_size=12,
            fingerprint=step % 18,
            label_counts=counts,
            loader_id=0,
            epoch=0,
            batch_index=step,
            workers=2,
            wait_ns=5_000_000,
        )
        for module_id in range(2):
            run.stat(step, module_id, 1.0)
            run.stat(step, module_id, 0.1, kind="gradient", phase=int(Phase.BACKWARD))
        run.add("metrics", step=step, name="accuracy", value=step / 20, source="wandb")
    run.add("events", step=3, time_ns=1, event="mode-changed", message="<b>eval</b>")
    run.add("recorder_stats", step=19, time_ns=1, part="gradients", ns=1_000_000, calls=40, interval=4, reason="budget")
    return run


def test_time_is_divided_without_remainder_and_the_slow_step_has_its_reason(full_run):
    panel = panels_of(full_run)["time"]
    facts = dict(panel.facts)
    shares = [float(v.rstrip("%")) for k, v in facts.items() if k.startswith("Share of")]
    assert sum(shares) == pytest.approx(100, abs=0.3)
    assert facts["Samples per second"] == "533"
    first = grid(panel, "Slowest steps")[0]
    assert first["step"] == "13"
    assert first["mostly"] == "data, 50 ms more than usual"


def test_operators_of_profiled_steps_and_lines_that_read_have_tables(full_run):
    for step in (5, 10):
        event = {"step": step, "window_id": step, "ph": "X", "pid": "1", "tid": "1"}
        full_run.add(
            "profiler_events", **event, event_id=0, cat="cpu_op", name="aten::<b>sort</b>", module_id=1, ts_ns=0,
            dur_ns=6_000_000, self_ns=6_000_000, phase=int(Phase.FORWARD),
        )  # fmt: skip
        full_run.add(
            "profiler_events", **event, event_id=1, cat="cpu_op", name="aten::mm", ts_ns=6_000_000, dur_ns=4_000_000,
            self_ns=4_000_000,
        )  # fmt: skip
        full_run.add("host_reads", step=step, place="train.py:7 in main", code="x.item()", reads=40, loop_ns=2_000_000)

    panels = panels_of(full_run)

    first, second = grid(panels["flame"], "Operators of the profiled steps, by own time")
    assert (first["operator"], first["module"], first["of the step"]) == ("aten::<b>sort</b>", "last (Linear)", "60.0%")
    assert (second["calls a step"], second["own time a step"]) == ("1", "4 ms")
    (read,) = grid(panels["time"], "Lines that read numbers out of tensors")
    assert (read["line"], read["reads a step"], read["counted steps"]) == ("train.py:7 in main", "40", "2")


def test_repeated_batches_and_the_labels_of_the_bad_step_are_counted(full_run):
    panel = panels_of(full_run, around=13)["data"]
    assert grid(panel, "Fields of the batches")[0]["came again"] == "2"
    assert grid(panel, "Loaders")[0]["workers"] == "2"
    [bars] = [rows for rows in panel.chart["datasets"].values() if "share" in rows[0]]
    assert [(b["label"], b["share"], b["there"]) for b in bars] == [("0", 0.475, 0.0), ("1", 0.525, 1.0)]


def test_each_group_has_its_course_of_the_learning_rate(full_run):
    rows = grid(panels_of(full_run)["optimizer"], "Parameter groups")
    assert [r["learning rate"] for r in rows] == ["0.001", "0.0001 → 0.002"]


def test_growth_of_memory_is_told_per_step(full_run):
    assert dict(panels_of(full_run)["memory"].facts)["Process, growth per step in the second half"] == "1 MB"


def test_who_owns_what_grows_and_what_was_in_memory_are_shown(full_run):
    leak = {
        "kind": "list",
        "holder": "seen",
        "scope": "global variable of train.py",
        "place": "train.py:9 in main",
        "expression": "seen.append(out)",
        "element": "tensor",
        "shape": [512, 512],
        "with_graph": True,
        "bytes_each": 1_048_576,
        "since_step": 4,
    }
    full_run.add("memory_owners", step=12, length=8, rate=1.0, **leak)
    full_run.add("memory_owners", step=16, length=12, rate=1.0, **leak)
    about = {"source": "python", "dtype": "float32", "device": "cpu"}
    full_run.add("memory_blocks", step=16, trigger="growth", category="other", blocks=3, bytes=300, shape=[5], **about)
    full_run.add(
        "memory_blocks",
        step=19,
        trigger="oom",
        category="activation",
        blocks=12,
        bytes=12 * 2**20,
        shape=[512, 512],
        **about,
    )

    panel = panels_of(full_run)["memory"]

    (owner,) = grid(panel, "Who owns what grows")
    assert owner["what grows"] == "list seen"
    assert owner["line that adds to it"] == "train.py:9 in main: seen.append(out)"
    assert (owner["since step"], owner["length"], owner["memory per step"]) == ("4", "12", "1.05 MB")
    (block,) = grid(panel, "In memory when memory ran out, step 19")
    assert (block["category"], block["memory"]) == ("activation", "12.6 MB")


def test_ranks_show_what_they_waited_and_a_run_of_one_has_no_such_panel(full_run, broken_run):
    rows = grid(panels_of(full_run)["ranks"], "Ranks")
    assert [r["waited in calls"] for r in rows] == ["not measured", "60 ms"]
    assert grid(panels_of(full_run)["ranks"], "Calls between ranks")[0]["calls"] == "20"


def test_what_was_not_recorded_has_no_panel(broken_run):
    assert set(panels_of(broken_run, 30, "blocks.0.attn")) == {"spread", "optimizer", "time", "recording"}


def test_thinned_work_is_named_with_its_reason(full_run):
    [row] = grid(panels_of(full_run)["recording"], "Work of the recorder")
    assert (row["measured"], row["why"]) == ("every 4 steps", "to stay within the budget")


def test_a_band_is_mean_and_deviation_of_the_recorded_moments(broken_run):
    panel = panels_of(broken_run, 30, "blocks.0.attn")["spread"]
    [rows] = [rows for rows in panel.chart["datasets"].values() if "mean" in rows[0]]
    assert rows[0] == {"step": 0, "low": -3.0, "high": 3.0, "lower": -3.0, "upper": 3.0, "mean": 0.0}
    assert rows[-1]["step"] == 29


@pytest.mark.parametrize("width", [pytest.param(1440, marks=pytest.mark.suite), 400])
def test_every_panel_opens_and_draws_without_a_console_message(open_page, full_run, make_verdict, tmp_path, width):
    with Trace(full_run.write()) as trace:
        verdict = make_verdict()
        verdict.first_anomaly.step = 13
        path = write_page(trace, verdict, tmp_path / "report.html")
    opened = open_page(path, width=width).drawn()
    opened.page.wait_for_selector("html[data-panels=drawn]", timeout=20_000)
    for summary in opened.page.locator(".panel > summary").all():
        summary.click()
    charts = opened.page.locator("[data-panel]").count()
    assert charts == 7
    assert opened.page.locator("[data-panel] svg").count() == charts
    assert "<b>eval</b>" in opened.page.locator("#panel-happenings").inner_text()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.said == []


def test_no_step_is_named_twice_on_an_axis_of_few_steps(open_page, run_folder, make_verdict, tmp_path):
    run = run_folder()
    for step in (551, 552):
        run.step(step, step_ns=20_000_000 + step)
    with Trace(run.write()) as trace:
        verdict = make_verdict()
        verdict.first_anomaly.step = 552
        path = write_page(trace, verdict, tmp_path / "report.html")
    page = open_page(path).page
    page.wait_for_selector("html[data-curves=drawn]", timeout=20_000)
    page.locator("#panel-time > summary").click()
    page.wait_for_selector("#panel-time svg", timeout=20_000)
    for chart, last in (("#curves", 552), ("#panel-time", 553)):
        named = [
            text for text in page.locator(f"{chart} svg text").all_text_contents() if text in {"551", "552", "553"}
        ]
        assert sorted(named) == [str(step) for step in range(551, last + 1)], chart
