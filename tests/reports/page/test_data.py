"""What a page says, as data: no HTML in sight."""

import math
from pathlib import Path

import polars as pl
import pytest
from firstfault.analyzer import Trace
from firstfault.reports.page.data import reduce_page
from firstfault.reports.sections.curves import NEIGHBOURHOOD, POINTS, nonfinite_marks, reduce_curves, thin
from firstfault.reports.sections.module_health import state
from firstfault.reports.text.wording import number, shape, show_name, size
from firstfault.schemas import ExceptionRecord, LastPosition


def test_the_headline_names_step_cause_and_module_in_one_sentence(page_of_broken_run):
    page = page_of_broken_run
    assert page.headline.title == "Step 30: fully masked attention row in blocks.0.attn"
    assert page.headline.fix == "Leave at least one key unmasked in each row."
    assert ("First bad step", "30") in page.headline.facts
    assert page.headline.cause == "NU004 fully-masked-attention-row, precision not measured"


def test_a_healthy_run_with_advice_is_not_headed_by_a_fault(run_folder, make_verdict, make_finding):
    run = run_folder()
    for step in range(40):
        run.step(step, loss=1.0, grad_norm=1.0)
    advice = make_finding(code="OP023", name="plateau", severity="warning", module=None)
    with Trace(run.write()) as trace:
        headline = reduce_page(trace, make_verdict("healthy", causes=[advice])).headline
    assert headline.title == "No fault found in 40 recorded steps; advice: plateau"
    assert headline.badge == "Healthy"
    assert "First bad step" not in dict(headline.facts)


def test_symptoms_stand_under_the_cause_that_explains_them(broken_run, make_verdict, make_finding):
    stray = make_finding(code="OP021", name="loss-spike", explained_by="something-else")
    verdict = make_verdict()
    verdict.symptoms.append(stray)
    with Trace(broken_run.write()) as trace:
        page = reduce_page(trace, verdict)
    assert [s.name for s in page.causes[0].symptoms] == ["nonfinite-loss"]
    assert [f.name for f in page.other_findings] == ["loss-spike"]


def test_the_ten_steps_before_end_with_the_marked_bad_step(page_of_broken_run):
    table = page_of_broken_run.steps_before
    assert table is not None
    assert [row[0] for row in table.rows] == [str(s) for s in range(20, 33)]
    assert table.marked == 10
    assert table.rows[10][3] == "NaN"
    assert table.rows[10][-1] == "first anomaly"
    assert table.rows[11][1] == "NaN"


def test_the_health_map_is_in_forward_order_and_shows_who_broke_first(page_of_broken_run):
    [activations] = [m for m in page_of_broken_run.health if m.kind == "activation"]
    assert activations.modules == ["(root) GPT", "tokens", "blocks.0.attn", "head"]
    assert activations.marked_module == "blocks.0.attn"
    at_fault = activations.cells.filter(pl.col("step") == 30)
    assert dict(zip(at_fault["module"], at_fault["state"], strict=True)) == {
        "(root) GPT": "nonfinite",
        "tokens": "usual",
        "blocks.0.attn": "nonfinite",
        "head": "nonfinite",
    }


@pytest.mark.parametrize(
    ("rms", "usual", "expected"),
    [
        (1.0, 1.0, "usual"),
        (3.5, 1.0, "x3"),
        (500.0, 1.0, "x100"),
        (0.05, 1.0, "d10"),
        (0.0, 1.0, "zero"),
        (1.0, None, "finite"),
    ],
)
def test_a_cell_is_judged_against_the_modules_own_history(rms, usual, expected):
    assert state(nonfinite=False, missing=False, rms=rms, usual=usual) == expected


def test_a_nonfinite_cell_is_nonfinite_whatever_its_finite_rest(broken_run):
    assert state(nonfinite=True, missing=False, rms=1.0, usual=1.0) == "nonfinite"


def test_nonfinite_values_become_marks_and_break_the_line(page_of_broken_run):
    curves = {c.name: c for c in page_of_broken_run.curves}
    assert curves["loss"].marks.to_dicts() == [{"first": 31, "last": 39, "count": 9, "what": "NaN"}]
    assert curves["loss"].points.filter(pl.col("value").is_null())["step"].to_list() == [31]
    assert curves["grad_norm"].marks["first"].to_list() == [30]


def test_a_million_steps_become_a_small_curve_that_keeps_its_one_spike():
    steps = 1_000_000
    frame = pl.DataFrame({"step": pl.int_range(steps, eager=True)}).with_columns(
        pl.when(pl.col("step") == 777_777).then(1e6).otherwise((pl.col("step") % 7).cast(pl.Float64)).alias("value"),
        pl.lit("").alias("line"),
    )
    small = thin(frame, around=500_000)
    assert small.height <= POINTS + 2 * NEIGHBOURHOOD + 2
    assert 777_777 in small["step"].to_list()
    assert set(range(500_000 - NEIGHBOURHOOD, 500_000 + NEIGHBOURHOOD + 1)) <= set(small["step"].to_list())
    assert small["step"].max() == steps - 1
    assert small["step"].is_sorted()


def test_a_long_noisy_curve_has_a_trend_and_a_short_one_has_none():
    def loss_of(steps: int):
        frame = pl.DataFrame({"step": range(steps), "loss": [2.0 + (s * 7919 % 100) / 100 for s in range(steps)]})
        frame = frame.with_columns(pl.lit(1.0).alias(c) for c in ("grad_norm", "clip_norm", "update_ratio", "step_ns"))
        groups = pl.DataFrame({"step": range(steps), "lr": 1.0, "optimizer_id": 0, "group_id": 0})
        return next(c for c in reduce_curves(frame, frame.select("step", "loss"), groups, None) if c.name == "loss")

    trend = loss_of(60_000).trend
    assert 0 < trend.height <= POINTS // 3 + 1
    assert trend["value"].is_between(2.3, 2.7).all()
    assert loss_of(50).trend.height == 0


def test_modules_that_led_to_the_fault_stay_on_a_crowded_map(run_folder, make_verdict, make_finding):
    run = run_folder()
    for module_id in range(200):
        run.module(module_id, f"layers.{module_id}")
    for step in range(8):
        run.step(step)
        for module_id in range(200):
            run.stat(step, module_id, None if step == 6 and module_id >= 100 else 1.0)
    verdict = make_verdict(causes=[make_finding(step=6, module="layers.100")])
    verdict.first_anomaly.step = 6
    with Trace(run.write()) as trace:
        [activations] = [m for m in reduce_page(trace, verdict).health if m.kind == "activation"]
    assert activations.modules[:7] == [f"layers.{n}" for n in range(94, 101)]
    assert activations.hidden == 200 - len(activations.modules) > 0


def test_marks_of_a_run_that_blinks_stay_few_and_lose_no_step():
    frame = pl.DataFrame({"step": list(range(20_000)), "value": [math.nan if s % 2 else 1.0 for s in range(20_000)]})
    marks = nonfinite_marks(frame)
    assert marks.height <= POINTS // 3 + 1
    assert marks["count"].sum() == 10_000


def test_infinities_and_nan_are_told_apart():
    frame = pl.DataFrame({"step": [1, 2, 3, 4], "value": [math.inf, math.nan, math.nan, 1.0]})
    assert nonfinite_marks(frame)["what"].to_list() == ["Inf", "NaN"]


def test_parameter_groups_with_their_own_schedule_get_their_own_line():
    steps = pl.DataFrame(
        {"step": [0, 1], "loss": [1.0, 1.0], "grad_norm": [1.0, 1.0], "clip_norm": [None, None], "step_ns": [1, 1]}
    ).with_columns(pl.lit(0.1).alias("update_ratio"))
    groups = pl.DataFrame(
        {"step": [0, 0, 1, 1], "optimizer_id": [0] * 4, "group_id": [0, 1, 0, 1], "lr": [1e-3, 1e-4, 1e-3, 1e-4]}
    ).with_columns(pl.lit(1.0).alias("update_norm"), pl.lit(1.0).alias("weight_norm"))
    [lr] = [c for c in reduce_curves(steps, steps.select("step", "loss"), groups, None) if c.name == "lr"]
    assert set(lr.points["line"]) == {"optimizer 0, group 0", "optimizer 0, group 1"}


def test_the_end_of_a_killed_run_says_where_it_stood(run_folder, make_verdict):
    position = LastPosition(rank=0, pid=7, time_ns=1, step=30, microbatch=0, phase="forward", module="blocks.1.mlp")
    run = run_folder(status="signal", signal=9, signal_name="SIGKILL", exit_code=137, last_positions=[position])
    run.step(0)
    with Trace(run.write()) as trace:
        page = reduce_page(trace, make_verdict("inconclusive", status="signal"))
    assert page.ending.sentence == "Killed by SIGKILL at step 30, blocks.1.mlp, forward pass."
    assert not page.ending.ok


def test_the_end_by_an_exception_shows_its_tensors(run_folder, make_verdict):
    error = ExceptionRecord(
        type="RuntimeError",
        message="shapes cannot be multiplied (24x64 and 2x96)\nmore",
        traceback="Traceback …",
        step=30,
        phase="forward",
        module="layout",
        inputs=[{"name": "input", "shape": [12, 2, 64], "dtype": "float32"}],
    )
    run = run_folder(status="exception", exception=error)
    with Trace(run.write()) as trace:
        ending = reduce_page(trace, make_verdict("inconclusive", status="exception", steps_recorded=0)).ending
    assert ending.sentence.startswith("RuntimeError at step 30, layout, forward pass: shapes cannot be multiplied")
    assert "more" not in ending.sentence
    assert ending.exception is not None
    assert ending.exception.tensors is not None
    assert "12\u202f×\u202f2\u202f×\u202f64" in ending.exception.tensors.rows[0]


def test_a_run_without_a_step_still_makes_a_page(run_folder, make_verdict):
    with Trace(run_folder().write()) as trace:
        page = reduce_page(trace, make_verdict("inconclusive", steps_recorded=0))
    assert page.headline.title == "No verdict: no step was recorded"
    assert page.curves == []
    assert page.health == []
    assert page.steps_before is None


def test_the_recorders_own_cost_is_told(broken_run, make_verdict):
    with Trace(broken_run.write()) as trace:
        [cost] = [dict(p.facts) for p in reduce_page(trace, make_verdict()).panels if p.key == "recording"]
    assert cost["Share of step time"] == "3.0%"
    assert cost["Written per step"] == "9 kB"


def test_gaps_in_the_recording_are_told(broken_run, make_verdict):
    path = broken_run.write()
    torn = path / "batches" / "rank=0000" / "part-000000.parquet"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b"PAR1 torn")
    with Trace(path) as trace:
        page = reduce_page(trace, make_verdict())
    assert any("part-000000.parquet" in p for p in page.problems)


def test_nested_configuration_becomes_flat_rows(broken_run, make_verdict):
    broken_run.config = {"optimizer": {"lr": 1e-3, "betas": [0.9, 0.95]}, "name": "x"}
    with Trace(broken_run.write()) as trace:
        settings = dict(reduce_page(trace, make_verdict()).settings)
    assert settings["config.optimizer.lr"] == "0.001"
    assert settings["config.optimizer.betas"] == "[0.9,0.95]"


def test_the_tail_of_the_output_comes_without_terminal_codes(broken_run, make_verdict):
    path = broken_run.write()
    Path(path / "output.log").write_bytes(b"\x1b[31mred\x1b[0m\n 10%\r 99%\nlast\n")
    with Trace(path) as trace:
        ending = reduce_page(trace, make_verdict()).ending
    assert ending.output == "red\n 99%\nlast"


def test_null_is_said_and_never_shown_as_zero():
    assert number(None) == "not measured"
    assert size(None) == "not measured"
    assert shape(None) == "not measured"
    assert number(0.0) == "0"


def test_control_and_direction_characters_in_names_become_visible():
    assert show_name("a\nb\x1b[31m\u202ec") == "a\\nb\\x1b[31m\\u202ec"
    assert show_name("层.模块 🚀") == "层.模块 🚀"
    assert show_name("") == "(root)"
