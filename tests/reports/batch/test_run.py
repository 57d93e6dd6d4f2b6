"""Many runs in one index: none stops the others, what has not changed is not judged again, names do nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from firstfault.analyzer.diagnosis.run_summary import FINDINGS_SCHEMA, RunSummary
from firstfault.application import build_app
from firstfault.reports.batch import run as batch
from firstfault.reports.batch.index import loss_paths, reduce_index
from firstfault.reports.batch.page import write_index
from firstfault.reports.batch.run import BatchRow
from firstfault.reports.batch.run_tree import find_runs
from firstfault.reports.text.errors import NoRunError
from typer.testing import CliRunner


@pytest.fixture
def command(judged_here: None) -> Any:
    """`firstfault batch`, where this process judges: one of a pool loads all libraries for two runs."""
    app = build_app("batch")
    return lambda *args: CliRunner().invoke(app, ["batch", "-j", "1", *map(str, args)], catch_exceptions=False)


@pytest.fixture
def make_run(run_folder: Any) -> Any:
    """A short run; with ``lost`` its values are NaN from that step on."""

    def make(name: str, lost: int = 99, steps: int = 12, **options: Any) -> Path:
        run = run_folder(name, **options)
        run.module(0, "net")
        for step in range(steps):
            run.step(step, **({"loss": float("nan"), "grad_norm": float("nan")} if step >= lost else {}))
            run.stat(step, 0, None if step >= lost else 1.0)
        return run.write()

    return make


def index(out: Path) -> dict[str, Any]:
    return json.loads((out / "index.json").read_text())


def by_name(out: Path) -> dict[str, dict[str, Any]]:
    return {r["name"]: r for r in index(out)["runs"]}


def test_every_run_gets_a_page_a_row_and_its_findings(make_run, command, tmp_path):
    make_run("tree/good")
    make_run("tree/deeper/lost", lost=6)
    done = command(tmp_path / "tree", "-o", tmp_path / "out")
    assert done.exit_code == 1
    rows = by_name(tmp_path / "out")
    assert {n: r["verdict"] for n, r in rows.items()} == {"good": "healthy", "deeper/lost": "anomalous"}
    lost = rows["deeper/lost"]
    assert (lost["step"], lost["steps"], lost["loss_last"], lost["loss_finite"]) == (6, 12, 3.0, False)
    assert all((tmp_path / "out" / r["page"]).read_text().startswith("<!doctype html>") for r in rows.values())
    findings = pl.read_parquet(tmp_path / "out" / "findings.parquet")
    assert findings.columns == list(FINDINGS_SCHEMA)
    causes = findings.filter((pl.col("role") == "cause") & (pl.col("run") == "deeper/lost"))
    assert lost["fault"] in causes["name"].to_list()
    assert {"name": lost["fault"], "runs": 1} in [
        {k: c[k] for k in ("name", "runs")} for c in index(tmp_path / "out")["causes"]
    ]
    assert str(tmp_path / "out" / "index.html") in done.stdout


@pytest.mark.slow
def test_the_exit_status_is_0_for_healthy_runs_and_3_where_nothing_worse_than_doubt_is(make_run, command, tmp_path):
    make_run("tree/good")
    assert command(tmp_path / "tree", "-o", tmp_path / "out").exit_code == 0
    make_run("tree/short", steps=1)
    assert command(tmp_path / "tree", "-o", tmp_path / "out").exit_code == 3


def test_a_broken_run_has_a_row_that_says_why_and_stops_no_other(make_run, command, tmp_path):
    for name in ("a-torn", "b-gone", "c-good"):
        make_run(f"tree/{name}")
    (tmp_path / "tree" / "a-torn" / "run.json").write_text('{"run_id": ')
    (tmp_path / "tree" / "b-gone" / "run.json").unlink()
    (tmp_path / "tree" / "b-gone" / "journal").mkdir()
    done = command(tmp_path / "tree", "-o", tmp_path / "out")
    assert done.exit_code == 3
    rows = by_name(tmp_path / "out")
    # of a damaged run.json the rest is read; a folder without one is no run
    assert [rows[n]["verdict"] for n in ("a-torn", "b-gone", "c-good")] == ["healthy", "unreadable", "healthy"]
    assert "run.json" in rows["b-gone"]["error"]
    assert rows["b-gone"]["page"] is None
    assert "b-gone" in done.stdout


@pytest.mark.slow
def test_what_has_not_changed_is_not_judged_again(make_run, command, found_healthy, drawn_at_once, tmp_path):
    make_run("tree/one")
    make_run("tree/two")
    out = tmp_path / "out"
    command(tmp_path / "tree", "-o", out)
    assert [r["fresh"] for r in index(out)["runs"]] == [True, True]
    first = {r["name"]: (out / r["page"]).stat().st_mtime_ns for r in index(out)["runs"]}
    command(tmp_path / "tree", "-o", out)
    assert [r["fresh"] for r in index(out)["runs"]] == [False, False]
    assert {r["name"]: (out / r["page"]).stat().st_mtime_ns for r in index(out)["runs"]} == first
    (tmp_path / "tree" / "two" / "output.log").write_text("one line more")
    make_run("tree/three")
    (out / by_name(out)["one"]["page"]).unlink()
    command(tmp_path / "tree", "-o", out)
    assert {n: r["fresh"] for n, r in by_name(out).items()} == {"one": True, "two": True, "three": True}
    command(tmp_path / "tree", "-o", out, "--again")
    assert {r["fresh"] for r in index(out)["runs"]} == {True}


@pytest.mark.slow
def test_a_changed_threshold_judges_again(make_run, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_run("tree/one")
    out = tmp_path / "out"
    command(tmp_path / "tree", "-o", out)
    (tmp_path / "firstfault.toml").write_text('[rules]\noff = ["class-imbalance"]\n')
    command(tmp_path / "tree", "-o", out)
    assert index(out)["runs"][0]["fresh"]


def test_json_is_the_index(make_run, command, tmp_path):
    make_run("tree/one")
    done = command(tmp_path / "tree", "-o", tmp_path / "out", "--json")
    assert json.loads(done.stdout, parse_constant=pytest.fail) == index(tmp_path / "out")
    assert index(tmp_path / "out")["complete"] is True


def test_a_run_below_two_of_the_folders_counts_once_and_links_to_runs_are_followed(make_run, tmp_path):
    run = make_run("tree/deep/one")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "two").symlink_to(run)
    (tmp_path / "linked" / "round").symlink_to(tmp_path)
    assert [p.path for p in find_runs([tmp_path / "tree", tmp_path / "tree" / "deep"])] == [run]
    assert [p.name for p in find_runs([tmp_path / "linked"])] == ["two"]
    assert [p.name for p in find_runs([run])] == ["one"]
    with pytest.raises(NoRunError):
        find_runs([tmp_path / "linked" / "none"])


def test_no_runs_at_all_and_a_folder_of_others_are_wrong_usage(make_run, command, tmp_path):
    (tmp_path / "empty").mkdir()
    assert command(tmp_path / "empty", "-o", tmp_path / "out").exit_code == 2
    assert not (tmp_path / "out").exists()
    make_run("tree/one")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "index.html").write_text("my page")
    done = command(tmp_path / "tree", "-o", theirs)
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert (theirs / "index.html").read_text() == "my page"
    assert [p.name for p in theirs.iterdir()] == ["index.html"]


def test_a_process_that_dies_costs_the_run_that_killed_it_and_no_other(make_run, tmp_path, monkeypatch):
    """The run is judged by a process that is told to kill itself, as the kernel does where memory is short."""
    for name in ("one", "two", "killer"):
        make_run(f"tree/{name}")
    monkeypatch.setattr(batch, "judge_run", judge_or_die)
    rows = batch.run_batch(
        find_runs([tmp_path / "tree"]), tmp_path / "out", own_rules=None, jobs=2, again=False, done=lambda _: None
    )
    assert {r.name: r.summary.verdict for r in rows} == {"one": "healthy", "two": "healthy", "killer": "unreadable"}
    assert [("died" in (r.summary.error or "")) for r in rows] == [r.name == "killer" for r in rows]


def judge_or_die(work: batch.Work) -> BatchRow:
    if work.place.name == "killer":
        os.kill(os.getpid(), signal.SIGKILL)
    return BatchRow(
        name=work.place.name, path="", slug=work.place.slug, page=None, summary=RunSummary(verdict="healthy")
    )


@pytest.mark.slow
def test_a_batch_that_was_killed_goes_on_where_it_stopped(make_run, command, tmp_path):
    for i in range(3):
        make_run(f"tree/{i}")
    out = tmp_path / "out"
    words = [sys.executable, "-m", "firstfault", "batch", str(tmp_path / "tree"), "-o", str(out), "-j", "1"]
    going = subprocess.Popen(words, cwd=tmp_path)
    deadline = time.monotonic() + 120
    while not list((out / "runs").glob("*.json")):
        assert time.monotonic() < deadline
        assert going.poll() is None
        time.sleep(0.02)
    going.kill()
    going.wait()
    assert "runs" in index(out)  # the folder is known for ours from before its first row
    kept = len(list((out / "runs").glob("*.json")))
    done = command(tmp_path / "tree", "-o", out)
    assert done.exit_code == 0
    rows = index(out)["runs"]
    assert len(rows) == 3
    assert 1 <= sum(not r["fresh"] for r in rows) <= kept + 1  # the process that was killed with it may have ended one
    assert kept < 3


HOSTILE = ["<script>window.hacked=1<", "a'b\"c`d", "{{ 7 * 7 }}", "层 🚀", "new\nline", "%2e%2e", "-rf", "CON"]


@pytest.mark.slow
def test_hostile_folder_names_do_nothing_in_index_and_file_system(
    make_run, command, found_healthy, drawn_at_once, open_page, tmp_path
):
    for name in HOSTILE:
        make_run(f"tree/{name}")
    odd = os.fsencode(tmp_path / "tree") + b"/\xff\xfe"
    shutil.copytree(tmp_path / "tree" / HOSTILE[0], os.fsdecode(odd))
    out = tmp_path / "out"
    assert command(tmp_path / "tree", "-o", out).exit_code == 3
    rows = by_name(out)
    assert {n for n, r in rows.items() if r["verdict"] != "healthy"} == {"\\xff\\xfe"}
    assert "not UTF-8" in rows["\\xff\\xfe"]["error"]
    names = [p.name for p in (out / "runs").iterdir()]
    assert len(names) == 2 * len(HOSTILE)
    assert all(c.isascii() and (c.isalnum() or c in ".-_") for n in names for c in n)
    assert not any(n.startswith((".", "-")) for n in names)
    opened = open_page(out / "index.html")
    body = opened.page.locator("body").inner_text()
    for name in [*HOSTILE, "\\xff\\xfe"]:
        assert name.replace("\n", "\\n") in body, name
    assert opened.page.locator("td.name a").count() == len(HOSTILE)
    opened.page.locator("td.name a").first.click()
    opened.page.wait_for_selector("#verdict")
    assert opened.page.evaluate("window.hacked === undefined")
    assert opened.said == []


def row(name: str, **values: Any) -> BatchRow:
    return BatchRow(name=name, path=f"/runs/{name}", slug=name, page=f"runs/{name}.html", summary=RunSummary(**values))


@pytest.fixture
def index_page(tmp_path: Path) -> Path:
    """An index over five runs, with what a cause needs to be counted."""

    def cause(name: str, severity: str = "error") -> dict[str, Any]:
        return {"role": "cause", "code": "XX001", "name": name, "severity": severity}

    lost = {"verdict": "anomalous", "fault": "nonfinite-loss", "severity": "fatal", "causes": ["nonfinite-loss"]}
    lost["findings"] = [cause("nonfinite-loss", "fatal")]
    rows = [
        row("b", **lost, step=30, steps=100, loss_last=2.0, loss_finite=False, loss_curve=[3.0, 2.0, None]),
        row("a", verdict="healthy", steps=20, loss_last=0.5, loss_best=0.25, loss_finite=True, loss_curve=[1, 0.5]),
        row("c", verdict="healthy", steps=9, loss_last=1e-3, loss_finite=True),
        row("d", **lost | {"step": 4, "steps": 10, "message": "every value is lost"}),
        row("e", verdict="unreadable", error="run.json: cannot be read"),
    ]
    rows[1].summary.findings = [cause("no-checkpoint", "warning")]
    rows[1].summary.causes = ["no-checkpoint"]
    return write_index(tmp_path, reduce_index(rows, complete=True, now_ns=0), rows)


def names(opened: Any) -> list[str]:
    return [c.inner_text() for c in opened.page.locator("td.name").all() if c.is_visible()]


def test_the_index_opens_from_disk_without_request_or_console_message(open_page, index_page):
    opened = open_page(index_page)
    assert opened.page.locator("h1").inner_text() == "5 runs: 2 anomalous, 1 unreadable, 2 healthy"
    assert names(opened) == ["b", "d", "e", "a", "c"]
    assert opened.page.locator(".causes button").first.inner_text() == "2 non-finite loss XX001"
    assert "cannot be read" in opened.page.locator("tr", has_text="run.json").inner_text()
    assert opened.said == []
    assert opened.asked == [index_page.as_uri()]


def test_columns_sort_by_number_with_what_is_unknown_last_in_both_directions(open_page, index_page):
    opened = open_page(index_page)
    steps = opened.page.locator("th button", has_text="steps")
    steps.click()
    assert names(opened) == ["c", "d", "a", "b", "e"]
    assert opened.page.locator("th[aria-sort=ascending]").inner_text() == "steps"
    steps.click()
    assert names(opened) == ["b", "a", "d", "c", "e"]
    opened.page.locator("th button", has_text="last loss").click()
    assert names(opened)[:3] == ["c", "a", "b"]
    opened.page.locator("th button").first.click()
    assert names(opened) == ["a", "b", "c", "d", "e"]
    assert opened.said == []


def test_words_verdicts_and_causes_filter_together(open_page, index_page):
    opened = open_page(index_page)
    opened.page.click("button[data-verdict=anomalous]")
    assert names(opened) == ["b", "d"]
    opened.page.fill("#filter", "LOST value")  # words of the message, which the cell has as its title
    assert names(opened) == ["d"]
    assert opened.page.locator("#shown").inner_text() == "1 of 5 runs"
    opened.page.click("button[data-verdict=anomalous]")
    opened.page.fill("#filter", "")
    assert opened.page.locator("#shown").inner_text() == "5 runs"
    opened.page.click("button[data-cause=no-checkpoint]")
    assert names(opened) == ["a"]
    assert opened.said == []


@pytest.mark.parametrize("width", [pytest.param(1440, marks=pytest.mark.suite), 400])
def test_the_index_does_not_scroll_sideways(open_page, index_page, width):
    opened = open_page(index_page, width=width)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.fixture
def long_index(tmp_path: Path) -> Path:
    """An index over three thousand runs: more than a page draws."""
    rows = []
    for i in range(3000):
        curve = [3.0 - i / 2000 + 0.01 * (k * (i + 1) % 7) for k in range(48)]
        if i % 2:
            rows.append(row(f"run{i:04}", verdict="healthy", steps=i, loss_last=curve[-1], loss_curve=curve))
        else:
            broken = {"fault": "nonfinite-loss", "severity": "fatal", "causes": ["nonfinite-loss"], "step": i}
            message = f"<b>lost</b> at step {i}"
            rows.append(row(f"run{i:04}", verdict="anomalous", message=message, loss_curve=[*curve, None], **broken))
            finding = {"role": "cause", "code": "XX001", "name": "nonfinite-loss", "severity": "fatal"}
            rows[-1].summary.findings = [finding]
    rows.append(row("odd", verdict="unreadable", error="<i>torn</i>"))
    rows[-1].page = None
    return write_index(tmp_path, reduce_index(rows, complete=True, now_ns=0), rows)


@pytest.mark.suite
def test_runs_beyond_those_that_are_drawn_filter_sort_and_are_drawn_like_them(open_page, long_index):
    opened = open_page(long_index)
    opened.page.wait_for_selector("html[data-rows=all]")
    rows, count = opened.page.locator("#table tbody tr"), opened.page.locator("#shown")
    assert (rows.count(), count.inner_text()) == (200, "3001 runs")
    drawn = opened.page.evaluate("document.querySelector('#table tbody').rows[3].innerHTML.replace(/\\s+/g, ' ')")
    opened.page.fill("#filter", "run2998")
    assert names(opened) == ["run2998"]
    assert rows.locator(".fault").get_attribute("title") == "<b>lost</b> at step 2998"
    unpacked = opened.page.evaluate("document.querySelector('#table tbody').rows[0].innerHTML.replace(/\\s+/g, ' ')")
    assert opened.page.evaluate(
        "([a, b]) => [a, b].map((html) => { const t = document.createElement('table'); t.innerHTML = `<tr>${html}</tr>`;"
        " return [...t.querySelectorAll('td')].map((c) => [c.className, c.querySelectorAll('svg path').length].join()) })",
        [drawn, unpacked],
    ) == 2 * [["name,0", ",0", "fault,0", "num,0", ",0", "num,0", "num,0", "curve,2", "num,0", "num,0", ",0", "when,0"]]
    opened.page.fill("#filter", "TORN")
    assert rows.inner_text().count("<i>torn</i>") == 1
    opened.page.fill("#filter", "")
    steps = opened.page.locator("th button", has_text="steps")
    steps.click()
    assert names(opened)[:2] == ["run0001", "run0003"]
    steps.click()
    assert names(opened)[:2] == ["run2999", "run2997"]
    opened.page.click("button[data-verdict=healthy]")
    opened.page.click("#more")
    assert (rows.count(), count.inner_text()) == (400, "1500 of 3001 runs")
    for _ in range(6):
        opened.page.click("#more")
    assert rows.count() == 1500
    assert not opened.page.locator("#more").is_visible()
    opened.page.click("button[data-verdict=healthy]")
    opened.page.click("button[data-cause=nonfinite-loss]")
    assert count.inner_text() == "1500 of 3001 runs"
    assert opened.said == []
    assert opened.asked == [long_index.as_uri()]


def test_a_row_beyond_those_that_are_drawn_takes_little_room(long_index):
    assert long_index.stat().st_size < 200 * 2500 + 2801 * 300 + 300_000


def test_many_causes_are_folded_and_still_filter(open_page, tmp_path):
    rows = [row(f"run{i}", verdict="anomalous", causes=[f"cause-{i:02}"]) for i in range(20)]
    for i, r in enumerate(rows):
        r.summary.findings = [{"role": "cause", "code": f"XX{i:03}", "name": f"cause-{i:02}", "severity": "error"}]
    opened = open_page(write_index(tmp_path, reduce_index(rows, complete=True, now_ns=0), rows))
    opened.page.locator("summary", has_text="4 more causes").click()
    opened.page.click("button[data-cause=cause-19]")
    assert names(opened) == ["run19"]
    assert opened.said == []


def test_a_small_curve_breaks_where_the_loss_was_lost():
    paths, lost = loss_paths([1.0, 2.0, None, 3.0, 4.0])
    assert len(paths) == 2
    assert lost == [48.0]
    assert loss_paths([None, None]) == ([], [0, 96])
    assert loss_paths([]) == ([], [])
