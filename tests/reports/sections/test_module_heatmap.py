"""The heat maps: each measure is what it says, a lost value is never drowned, and the page switches between them."""

import math

import pytest
from firstfault.analyzer import Trace
from firstfault.reports.page.render import reduce_page, write_page
from firstfault.reports.sections.module_heatmap import COLUMNS, LOST, MAX_MODULES, reduce_heat
from firstfault.schemas import Phase


def heat_of(run, around=None, suspect=None):
    with Trace(run.write()) as trace:
        return reduce_heat(trace, 0, around, suspect)


def values(heat, key, module):
    [measure] = [m for m in heat.measures if m.key == key]
    return measure.values[heat.modules.index(module)]


def test_gradient_norm_is_that_of_the_step(run_folder):
    run = run_folder()
    for module_id, name in enumerate(("first", "last")):
        run.module(module_id, name)
    for step in range(5):
        run.step(step)
        for module_id in range(2):
            run.stat(step, module_id, 0.5 * (module_id + 1), kind="gradient", phase=int(Phase.BACKWARD))
    heat = heat_of(run)
    assert heat.modules == ["first", "last"]
    assert values(heat, "gradient", "first") == pytest.approx([0.5 * math.sqrt(32)] * 5, rel=0.01)
    assert values(heat, "gradient", "last") == pytest.approx([math.sqrt(32)] * 5, rel=0.01)


def test_one_lost_value_among_a_hundred_thousand_steps_keeps_its_column(run_folder):
    run = run_folder()
    for module_id, name in enumerate(("first", "last")):
        run.module(module_id, name)
    for step in (*range(0, 100_000, 500), 77_777, 99_999):
        for module_id in range(2):
            run.stat(step, module_id, None if step == 77_777 and module_id else 1.0)
    heat = heat_of(run, 77_777, "last")
    assert len(heat.starts) <= COLUMNS
    column = 77_777 // heat.width
    assert heat.starts[column] <= 77_777 < heat.starts[column] + heat.width
    assert values(heat, "activation", "last")[column] == LOST
    assert values(heat, "lost", "last")[column] == 1.0
    assert [v for i, v in enumerate(values(heat, "lost", "last")) if i != column and v] == []
    assert set(values(heat, "activation", "first")) == {1.0}


def test_dead_and_saturated_units_have_their_own_measures(run_folder):
    run = run_folder()
    for module_id, name in enumerate(("ReLU", "Tanh", "Sigmoid", "Linear")):
        run.module(module_id, name.lower(), class_name=name)
    for step in range(2):
        run.stat(step, 0, 0.5, zero_count=24, min=0.0)
        run.stat(step, 1, 0.9)
        run.stat(step, 2, math.sqrt(0.5), sum=16.0)
        run.stat(step, 3, 3.0, zero_count=1)  # by chance, among numbers of both signs
    heat = heat_of(run)
    assert values(heat, "zeros", "relu") == [0.75, 0.75]
    assert values(heat, "zeros", "linear") == [None, None]
    assert values(heat, "saturation", "tanh") == [0.81, 0.81]
    assert values(heat, "saturation", "sigmoid") == [1.0, 1.0]
    assert values(heat, "saturation", "linear") == [None, None]
    assert "lost" not in {m.key for m in heat.measures}


def test_the_table_of_modules_has_the_medians_of_the_maps(run_folder, make_verdict):
    run = run_folder()
    for module_id, name in enumerate(("first", "last")):
        run.module(module_id, name)
    for step in range(5):
        run.step(step)
        for module_id in range(2):
            run.stat(step, module_id, 1.0, zero_count=8, min=0.0)
            run.stat(step, module_id, None if step == 4 else float(step), kind="gradient", phase=int(Phase.BACKWARD))
    with Trace(run.write()) as trace:
        table = reduce_page(trace, make_verdict("healthy")).modules
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["zeros"] == "25%"
    assert row["gradient norm"] == "8.48"  # of 0, 1, 2 and 3 times the root of 32; the lost one does not count
    assert row["first NaN or Inf"] == "step 4"


def test_of_a_large_model_the_suspect_and_what_lies_round_it_are_shown(run_folder):
    run = run_folder()
    for module_id in range(500):
        run.module(module_id, f"layers.{module_id}")
        for step in range(2):
            run.stat(step, module_id, 1.0, kind="gradient", phase=int(Phase.BACKWARD))
    heat = heat_of(run, 1, "layers.333")
    assert {f"layers.{i}" for i in range(327, 340)} <= set(heat.modules)
    assert {"layers.0", "layers.499"} <= set(heat.modules)
    assert len(heat.modules) <= MAX_MODULES
    assert heat.hidden == 500 - len(heat.modules)


def test_buttons_and_keys_move_through_the_maps(open_page, broken_run, make_verdict, tmp_path):
    with Trace(broken_run.write()) as trace:
        path = write_page(trace, make_verdict(), tmp_path / "report.html")
    opened = open_page(path).drawn()
    page = opened.page
    assert page.locator("#heat-map rect[data-shade=lost]").count() == 10 + 10 + 9 + 10
    page.click("[data-heat=lost]")
    assert page.locator("[data-heat=lost]").get_attribute("aria-pressed") == "true"
    assert page.locator("#heat-cell").inner_text() == "blocks.0.attn, step 30: non-finite share 1"
    page.focus("#heat-map")
    page.keyboard.press("ArrowLeft")
    assert page.locator("#heat-cell").inner_text() == "blocks.0.attn, step 29: non-finite share 0"
    assert page.locator("[data-heat=saturation]").count() == 0
    assert opened.said == []
