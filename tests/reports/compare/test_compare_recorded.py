"""Two recorded runs side by side: the first difference is named where it is, and nothing is named where there is none."""

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import forked
import pytest
from firstfault.analyzer import Trace, Verdict, diagnose
from firstfault.analyzer.compare.comparison import Comparison, compare
from firstfault.application import build_app
from firstfault.reports.commands import compare as compare_command
from typer.testing import CliRunner

SCRIPT = """
import argparse, os, torch
from torch import nn
p = argparse.ArgumentParser()
p.add_argument("--seed", type=int, default=0)
p.add_argument("--half-lr-at", type=int, default=-1)
p.add_argument("--nudge-at", type=int, default=-1)
p.add_argument("--extra-draw-at", type=int, default=-1)
a = p.parse_args()
torch.manual_seed(a.seed)
x = torch.randn(256, 8)
y = (x.sum(1) > 0).long()
data = torch.utils.data.TensorDataset(x, y)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
step = 0
for epoch in range(2):
    for xb, yb in torch.utils.data.DataLoader(data, batch_size=32, shuffle=True):
        if step == a.half_lr_at:
            optimizer.param_groups[0]["lr"] *= 0.5
        if step == a.extra_draw_at:
            torch.rand(1)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(xb), yb).backward()
        if step == a.nudge_at:
            gradient = model[0].weight.grad.view(-1)
            gradient[gradient.abs().argmax()] *= 1 + 1e-6  # the largest: its extremes show it on any processor
        if step == 5 and "NUDGE" in os.environ:
            model[0].weight.grad[0, 0] += 3
        optimizer.step()
        step += 1
"""

pytestmark = pytest.mark.slow  # seven trainings

RUNS: dict[str, list[str]] = {
    "first": [],
    "again": [],
    "seed": ["--seed", "1"],
    "lr": ["--half-lr-at", "7"],
    "tiny": ["--nudge-at", "5"],
    "by chance": [],
    "draw": ["--extra-draw-at", "4"],
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one recorded run for each of RUNS."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--budget", "off", "--out"]
    started = [
        forked.Process(
            [*command, str(folder / name), str(folder / "train.py"), *args],
            env=os.environ | ({"NUDGE": "1"} if name == "by chance" else {}),
        )
        for name, args in RUNS.items()
    ]
    assert [p.wait(timeout=120) for p in started] == [0] * len(RUNS)
    return folder


@cache
def verdict_on(run: Path) -> Verdict:
    """Each run is judged once, however many it is compared with."""
    with Trace(run) as trace:
        return diagnose(trace)


@cache
def compared(folder: Path, one: str, two: str) -> Comparison:
    with Trace(folder / one) as a, Trace(folder / two) as b:
        return compare(a, b, verdict_on(folder / one), verdict_on(folder / two))


@pytest.fixture(autouse=True)
def judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command compares the same runs as the tests before it."""
    monkeypatch.setattr(compare_command, "diagnose", lambda trace, _: verdict_on(trace.path))


def command(*args: Any) -> Any:
    app = build_app("compare")
    return CliRunner().invoke(app, ["compare", *map(str, args)], catch_exceptions=False)


@pytest.mark.parametrize("other", [pytest.param("first", marks=pytest.mark.suite), "again"])
def test_a_run_compared_with_itself_or_its_repetition_has_no_divergence(recorded, other):
    c = compared(recorded, "first", other)
    assert (c.exact, c.beyond, c.explanation, c.settings, c.rng_step) == (None, None, None, [], None)
    assert c.batches.compared == 2 * 16
    assert c.batches.first is None
    assert c.common_steps == 16
    assert c.tensors.compared > 300


def test_two_seeds_diverge_at_step_0_and_the_seeds_are_named(recorded):
    c = compared(recorded, "first", "seed")
    assert c.exact is not None
    assert c.beyond is not None
    assert c.exact.step == c.beyond.step == c.batches.first == 0
    assert c.explanation is not None
    assert c.explanation.name == "other-seed"
    assert "0 in A, 1 in B" in c.explanation.message


def test_another_learning_rate_from_step_7_on_is_the_first_divergence_there(recorded):
    c = compared(recorded, "first", "lr")
    assert c.exact is not None
    assert (c.exact.step, c.exact.what, c.exact.measure, c.exact.a, c.exact.b) == (7, "setting", "lr", 0.05, 0.025)
    assert c.beyond == c.exact
    assert c.batches.first is None
    [setting] = c.settings
    assert (setting.first, setting.last, setting.steps) == (7, 15, 9)
    assert c.tensors.exact is not None
    assert c.tensors.exact.step == 7
    assert c.tensors.exact.kind in {"update", "parameter"}  # the gradients of step 7 are still the same


def test_a_nudge_of_rounding_size_is_a_difference_but_within_tolerance(recorded):
    c = compared(recorded, "first", "tiny")
    assert c.exact is not None
    assert (c.exact.step, c.exact.kind, c.exact.name) == (5, "gradient", "0.weight")
    assert c.beyond is None


def test_a_nudge_of_size_is_beyond_tolerance_in_the_same_tensor(recorded):
    c = compared(recorded, "first", "by chance")
    assert c.beyond is not None
    assert (c.beyond.step, c.beyond.kind, c.beyond.name) == (5, "gradient", "0.weight")


def test_one_random_number_more_is_seen_in_the_random_state_and_in_what_dropout_makes(recorded):
    c = compared(recorded, "first", "draw")
    assert c.rng_step == 4
    assert c.exact is not None
    assert (c.exact.step, c.exact.module) == (4, "2")


def test_the_same_command_with_another_outcome_is_a_nondeterministic_run(recorded):
    """What makes the difference stands in an environment variable, which no recording holds."""
    c = compared(recorded, "first", "by chance")
    assert c.explanation is not None
    assert (c.explanation.code, c.explanation.name) == ("RE001", "nondeterministic-run")
    assert "same seed, same batches, same code" in c.explanation.message
    assert "0.weight" in c.explanation.message
    assert "step 5" in c.explanation.message


@pytest.mark.parametrize(
    ("other", "status"),
    [
        pytest.param("again", 0, marks=pytest.mark.suite),
        ("tiny", 0),
        pytest.param("lr", 1, marks=pytest.mark.suite),
        pytest.param("seed", 1, marks=pytest.mark.suite),
    ],
)
def test_the_exit_status_says_whether_they_diverged(recorded, other, status):
    done = command(recorded / "first", recorded / other)
    assert done.exit_code == status
    assert len(done.stdout.splitlines()) < 40


def test_what_cannot_be_compared_is_one_clear_line_and_status_2(recorded, run_folder, tmp_path):
    for other in (tmp_path / "missing", run_folder("no-steps").write()):
        done = command(recorded / "first", other)
        assert done.exit_code == 2
        assert done.stdout == ""
        assert len(done.stderr.strip().splitlines()) <= 2


def test_json_names_both_runs_and_the_first_divergence(recorded):
    done = command(recorded / "first", recorded / "lr", "--json")
    said = json.loads(done.stdout, parse_constant=pytest.fail)
    assert done.exit_code == 1
    assert said["result"] == "diverged"
    assert said["first_divergence"]["step"] == 7
    assert said["a"]["path"] == str(recorded / "first")
    assert said["batches"]["first"] is None


def test_the_page_opens_from_disk_with_overlaid_curves_and_says_where(recorded, open_page, tmp_path):
    target = tmp_path / "page.html"
    assert command(recorded / "first", recorded / "lr", "-o", target).exit_code == 1
    opened = open_page(target)
    opened.page.wait_for_selector("html[data-curves=drawn]", timeout=20_000)
    assert "Step 7: lr of optimizer 0, group 0 differs first" in opened.page.locator("h1").inner_text()
    curves = opened.page.locator("#curves-chart").inner_text()
    for words in ("Loss", "Learning rate", "first difference, step 7", "A", "B"):
        assert words in curves
    opened.page.click("[data-range=near]")
    opened.page.wait_for_timeout(300)
    assert opened.page.locator("#settings td").first.inner_text() == "lr of optimizer 0, group 0"
    assert opened.said == []
    assert opened.asked == [target.as_uri()]


@pytest.mark.suite  # the index of a batch, drawn from the same styles, is looked at in every run
@pytest.mark.parametrize("width", [1440, 400])
def test_the_page_does_not_scroll_sideways(recorded, open_page, tmp_path, width):
    target = tmp_path / "page.html"
    command(recorded / "first", recorded / "seed", "-o", target)
    opened = open_page(target, width=width)
    opened.page.wait_for_selector("html[data-curves=drawn]", timeout=20_000)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_strangers_file_is_not_overwritten(recorded, tmp_path):
    target = tmp_path / "page.html"
    target.write_text("my thesis")
    assert command(recorded / "first", recorded / "again", "-o", target).exit_code == 2
    assert target.read_text() == "my thesis"
