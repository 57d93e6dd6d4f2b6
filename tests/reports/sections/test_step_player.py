"""The replay: which state a station has at a step, what is said about the step, and that the page plays it."""

import json

import pytest
from firstfault.analyzer import Trace
from firstfault.reports.page.render import write_page
from firstfault.reports.sections.step_player import MAX_STATIONS, STATES, reduce_replay, replay_json
from firstfault.schemas import Phase


def replay_of(run, around=30, suspect="blocks.0.attn", last=39):
    with Trace(run.write()) as trace:
        return reduce_replay(trace, 0, around, last, suspect)


def state_of(replay, step, label, lane="forward"):
    station = [s.label for s in replay.stations].index(label)
    rows = replay.cells.filter((replay.cells["step"] == step) & (replay.cells["station"] == station))
    return rows.filter(rows["lane"] == lane)["state"].item()


def test_the_first_bad_step_names_the_first_station_and_how_many_follow(broken_run):
    replay = replay_of(broken_run)
    said = dict(zip(replay.steps, replay.said, strict=True))
    assert said[29] == "Step 29: all 4 stations as usual."
    assert said[30] == "Step 30, the first anomaly: first (root) GPT (NaN or Inf), then 2 of 3 others."
    assert said[31].startswith("Step 31: 4 of 4 stations not as usual")
    assert state_of(replay, 30, "blocks.0.attn") == "nonfinite"
    assert state_of(replay, 30, "tokens") == "usual"


def test_stations_stand_in_order_of_capture_and_the_suspect_is_marked(broken_run):
    replay = replay_of(broken_run)
    assert [s.label for s in replay.stations] == ["(root) GPT", "tokens", "blocks.0.attn", "head"]
    assert [s.label for s in replay.stations if s.suspect] == ["blocks.0.attn"]


def test_gradients_that_vanish_from_the_first_step_are_faint_without_any_history(run_folder):
    run = run_folder()
    for module_id in range(8):
        run.module(module_id, f"layers.{module_id}")
    for step in range(6):
        run.step(step)
        for module_id in range(8):
            run.stat(step, module_id, 1.0)
            run.stat(step, module_id, 10.0 ** (module_id - 8), kind="gradient", phase=int(Phase.BACKWARD))
    replay = replay_of(run, around=0, suspect="layers.0", last=5)
    assert state_of(replay, 0, "layers.0", "gradient") == "faint"
    assert state_of(replay, 0, "layers.7", "gradient") == "finite"
    assert state_of(replay, 0, "layers.0") == "finite"


def test_a_dead_relu_and_a_saturated_tanh_show_without_any_history(run_folder):
    run = run_folder()
    for module_id, name in enumerate(("ReLU", "Tanh", "Sigmoid", "Linear")):
        run.module(module_id, name.lower(), class_name=name)
    run.step(0)
    run.stat(0, 0, 0.1, zero_count=31)
    run.stat(0, 1, 0.99)
    run.stat(0, 2, 0.5, sum=16.0)
    run.stat(0, 3, 0.99)
    replay = replay_of(run, around=0, suspect=None, last=0)
    assert state_of(replay, 0, "relu") == "sparse"
    assert state_of(replay, 0, "tanh") == "saturated"
    assert state_of(replay, 0, "sigmoid") == "finite"
    assert state_of(replay, 0, "linear") == "finite"


def test_a_tensor_that_was_all_zero_before_has_no_ratio_and_the_page_is_written(run_folder, make_verdict):
    run = run_folder()
    for module_id in range(2):
        run.module(module_id, f"layers.{module_id}")
    for step in range(8):
        run.step(step)
        for module_id in range(2):
            run.stat(step, module_id, 0.0 if step < 6 else float(module_id))
    replay = replay_of(run, around=6, suspect="layers.1", last=7)
    assert replay.cells["ratio"].to_list() == [None] * replay.cells.height
    assert state_of(replay, 6, "layers.1") == "x100"
    assert json.loads(json.dumps(replay_json(replay), allow_nan=False))["steps"] == list(range(8))


def test_of_a_sampled_recording_as_many_measured_steps_are_replayed(run_folder):
    run = run_folder()
    for module_id in range(2):
        run.module(module_id, f"layers.{module_id}")
    for step in range(0, 4000, 50):
        run.step(step)
        for module_id in range(2):
            run.stat(step, module_id, None if step >= 3000 else 1.0)
    replay = replay_of(run, around=3000, suspect="layers.0", last=3950)
    assert replay.steps == list(range(2000, 3400, 50))
    assert state_of(replay, 2950, "layers.0") == "usual"
    assert state_of(replay, 3000, "layers.0") == "nonfinite"


def test_of_a_large_model_the_stations_round_the_fault_are_kept(run_folder):
    run = run_folder()
    for module_id in range(300):
        run.module(module_id, f"layers.{module_id}")
    for step in range(8):
        run.step(step)
        for module_id in range(300):
            run.stat(step, module_id, None if step > 5 and module_id >= 200 else 1.0)
    replay = replay_of(run, around=6, suspect="layers.200", last=7)
    labels = [s.label for s in replay.stations]
    assert len(labels) == MAX_STATIONS
    assert replay.hidden == 300 - MAX_STATIONS
    assert {"layers.193", "layers.199", "layers.200", "layers.201"} <= set(labels)
    assert labels == sorted(labels, key=lambda name: int(name.split(".")[1]))


def test_what_the_page_is_given_refers_to_declared_rows_lanes_and_states(broken_run):
    given = replay_json(replay_of(broken_run))
    assert len(given["cells"]) == len(given["steps"]) == len(given["said"])
    for cells in given["cells"]:
        for lane, station, state, *_ in cells:
            assert lane < len(given["lanes"])
            assert station < len(given["stations"])
            assert state < len(given["states"])


def test_keys_slider_and_play_button_move_through_the_steps(open_page, broken_run, make_verdict, tmp_path):
    with Trace(broken_run.write()) as trace:
        path = write_page(trace, make_verdict(), tmp_path / "report.html")
    opened = open_page(path).drawn()
    page = opened.page
    said = page.locator("#replay-said")
    assert "Step 30, the first anomaly" in said.inner_text()
    assert page.locator("#replay-table td[data-state=nonfinite]").count() == 3
    page.focus("#replay-table")
    page.keyboard.press("ArrowLeft")
    assert "Step 29: all 4 stations" in said.inner_text()
    assert page.locator("#replay-table td[data-state=nonfinite]").count() == 0
    page.keyboard.press("ArrowDown")
    assert page.locator("#replay-cell").inner_text().startswith("head")
    page.fill("#replay-slider", "0")
    assert "Step 10" in said.inner_text()
    assert page.get_attribute("#replay-slider", "aria-valuetext") == "step 10"
    page.click("#replay-play")
    page.wait_for_function("document.getElementById('replay-said').textContent.startsWith('Step 12')")
    page.click("#replay-play")
    page.click("#replay-mark")
    assert "Step 30" in said.inner_text()
    assert opened.said == []


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.suite)])
def test_figures_in_cells_of_every_state_have_enough_contrast(
    open_page, broken_run, make_verdict, luminance, tmp_path, scheme
):
    """WCAG 2 AA asks for 4.5 to 1 for text of this size, on whatever colour a state has."""
    with Trace(broken_run.write()) as trace:
        path = write_page(trace, make_verdict(), tmp_path / "report.html")
    page = open_page(path, scheme=scheme).drawn().page
    colours = page.evaluate(
        """names => names.map(name => {
            const cell = document.querySelector('#replay-table td[data-state]');
            cell.dataset.state = name;
            const style = getComputedStyle(cell);
            return [name, style.color, style.backgroundColor];
        })""",
        list(STATES),
    )
    for name, ink, ground in colours:
        high, low = sorted((luminance(ink), luminance(ground)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (name, ink, ground)
