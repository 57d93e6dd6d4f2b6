"""Over many runs: which settings go with failure, what runs with one cause share, and an index that follows a sweep."""

import json
import random
import signal
import subprocess
import sys
import time
from fractions import Fraction
from math import comb

import msgspec
import pytest
from firstfault.analyzer import Trace
from firstfault.analyzer.diagnosis.run_settings import arguments, run_settings
from firstfault.analyzer.diagnosis.run_summary import RunSummary
from firstfault.reports.batch.index import reduce_index
from firstfault.reports.batch.loss_clusters import clusters
from firstfault.reports.batch.page import render_index
from firstfault.reports.batch.run import BatchRow
from firstfault.reports.batch.settings import Chances, chance_of, failing_settings


def row(i, *, failed, fault="lr-too-high", module="head", step=7, **settings):
    summary = RunSummary(
        verdict="anomalous" if failed else "healthy",
        fault=fault if failed else None,
        code="OP004" if failed else None,
        severity="error" if failed else None,
        step=step if failed else None,
        module=module if failed else None,
        causes=[fault] if failed else [],
        loss_curve=[3.0, 2.0, None if failed else 1.0],
        settings=settings,
    )
    return BatchRow(name=f"run{i}", path=f"/x/run{i}", slug=f"s{i}", page=f"runs/s{i}.html", summary=summary)


def test_a_threshold_that_parts_failed_from_healthy_runs_is_found():
    rates = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0]
    rows = [row(i, failed=lr >= 0.1, lr=lr, seed=float(i * 7 % 5), width=64.0) for i, lr in enumerate(rates)]
    [split, *_] = failing_settings(rows)
    assert (split.setting, split.words) == ("lr", "≥ 0.1")
    assert (split.runs, split.failed, split.other_runs, split.other_failed) == (4, 4, 6, 0)
    assert split.chance <= 0.05


def test_the_chance_is_that_of_drawing_balls():
    assert chance_of(2, 2, 0, 2) == pytest.approx(1 / 6)
    assert chance_of(0, 2, 2, 2) == 1.0


def test_the_chance_of_thousands_of_runs_is_that_of_whole_numbers():
    everyone, failures, runs = 3000, 900, 1000
    for failed in (250, 300, 340, 500):
        ways = sum(comb(runs, k) * comb(everyone - runs, failures - k) for k in range(failed, failures + 1))
        exact = float(Fraction(ways, comb(everyone, failures)))
        assert chance_of(failed, runs, failures - failed, everyone - runs) == pytest.approx(exact, rel=1e-8)
    assert Chances(20_000, 10_000).log(10_000, 10_000) < -13_000  # no float is as small


def test_settings_that_have_nothing_to_do_with_failure_are_not_named():
    """Forty sweeps of pure chance with many settings: a bound of 5 % may be missed now and then, not often."""
    rng = random.Random(0)
    named = 0
    for _ in range(40):
        rows = [
            row(i, failed=rng.random() < 0.4, lr=rng.random(), seed=float(i), opt=rng.choice(["sgd", "adam"]))
            for i in range(30)
        ]
        named += bool(failing_settings(rows))
    assert named <= 4


def test_an_argument_and_what_came_of_it_are_one_line():
    rows = [
        row(i, failed=i % 2 == 0, amp="yes" if i % 2 == 0 else "no", dtype="half" if i % 2 == 0 else "float")
        for i in range(12)
    ]
    assert [(s.setting, s.words) for s in failing_settings(rows)] == [("amp", "= yes")]


def test_too_few_runs_or_only_failures_say_nothing():
    assert failing_settings([row(i, failed=True, lr=float(i)) for i in range(20)]) == []
    assert failing_settings([row(i, failed=i > 2, lr=float(i)) for i in range(5)]) == []


def test_runs_of_one_cause_are_told_with_what_only_they_share():
    rows = [row(i, failed=True, step=5 + i, optimizer="SGD", width=64.0) for i in range(3)]
    rows += [row(i, failed=True, fault="dead-relu", optimizer="Adam", width=64.0) for i in range(3, 5)]
    rows += [row(i, failed=False, optimizer="Adam", width=64.0) for i in range(5, 9)]
    found = clusters(rows)
    assert [(c.name, c.runs) for c in found] == [("lr-too-high", 3), ("dead-relu", 2), ("", 4)]
    assert found[0].words == "from steps 5 to 7, in head; in common: optimizer SGD"
    assert found[1].words == "from step 7, in head"
    assert len(found[0].curves) == 3


def test_arguments_are_read_in_the_usual_spellings():
    argv = ["train.py", "--lr", "0.1", "--width=64", "model.depth=3", "--amp", "--seed", "-1", "-q"]
    assert arguments(argv) == {
        "lr": "0.1",
        "width": "64",
        "model.depth": "3",
        "amp": "yes",
        "seed": "yes",
        "q": "yes",
    } | {"seed": "-1"}


def test_what_the_script_declared_comes_before_what_was_seen(run_folder):
    run = run_folder()
    run.config = {"lr": 0.5, "model": {"width": 32, "tied": True}, "notes": "x" * 500}
    run.step(0, lr=1e-3)
    with Trace(run.write()) as trace:
        found = run_settings(trace)
    assert found["lr"] == 0.5
    assert (found["model.width"], found["model.tied"], found["optimizer"]) == (32.0, "yes", "AdamW")
    assert "notes" not in found


def test_what_no_number_of_json_can_be_stays_a_text_and_a_row_can_be_kept(run_folder):
    run = run_folder()
    run.config = {"script": "nan", "clip": "inf", "low": "-Infinity", "lr": "1e-3", "seed": "9" * 400}
    run.step(0)
    with Trace(run.write()) as trace:
        found = run_settings(trace)
    assert (found["script"], found["clip"], found["low"], found["lr"]) == ("nan", "inf", "-Infinity", 1e-3)
    assert "seed" not in found
    assert msgspec.json.decode(msgspec.json.encode(found), type=dict[str, str | float]) == found


def test_hostile_settings_and_names_do_nothing_in_the_index(open_page, tmp_path):
    evil = "<img src=x onerror=window.hacked=1>"
    rows = [row(i, failed=i % 2 == 0, **{evil: evil if i % 2 == 0 else "no"}) for i in range(12)]
    page = tmp_path / "index.html"
    page.write_text(render_index(reduce_index(rows, complete=True, now_ns=0)))
    opened = open_page(page)
    assert evil in opened.page.locator("#settings").inner_text()
    assert opened.page.locator("#clusters .multiples svg").count() == 12
    assert opened.page.evaluate("window.hacked === undefined")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 1440
    assert opened.said == []


@pytest.mark.suite
def test_a_watched_sweep_shows_a_run_that_came_later_and_ends_with_ctrl_c(run_folder, tmp_path):
    (tmp_path / "sweep").mkdir()
    out = tmp_path / "out"
    command = [sys.executable, "-m", "firstfault", "batch", str(tmp_path / "sweep"), "-o", str(out), "-j", "1"]
    process = subprocess.Popen(
        [*command, "--watch", "--interval", "0.5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )

    def names():
        try:
            return {r["name"] for r in json.loads((out / "index.json").read_text())["runs"]}
        except FileNotFoundError:
            return None

    def wait_for(wanted):
        deadline = time.monotonic() + 120
        while names() != wanted:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, names()
            time.sleep(0.1)

    try:
        wait_for(set())
        for name in ("one", "two"):
            run = run_folder(f"sweep/{name}")
            run.step(0)
            run.write()
            wait_for({"one"} if name == "one" else {"one", "two"})
        assert 'http-equiv="refresh"' in (out / "index.html").read_text()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode in (0, 3, 130)
    if process.returncode != 130:
        assert 'http-equiv="refresh"' not in (out / "index.html").read_text()
