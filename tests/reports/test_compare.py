"""Two runs made by hand, side by side: counts of NaN, sampled recordings, hostile names."""

from typing import Any

import typer
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.compare import compare
from firstfault.reports import many_cli
from typer.testing import CliRunner


def command(*args: Any) -> Any:
    app = typer.Typer()
    app.callback()(lambda: None)
    many_cli.register(app)
    return CliRunner().invoke(app, ["compare", *map(str, args)], catch_exceptions=False)


def test_a_run_that_lost_its_values_diverges_where_the_counts_of_nan_do(run_folder):
    runs = [run_folder(name) for name in ("a", "b")]
    for run, lost in zip(runs, (99, 6), strict=True):
        run.module(0, "net")
        for step in range(10):
            run.step(step)
            run.stat(step, 0, None if step >= lost else 1.0)
        run.write()
    with Trace(runs[0].path) as a, Trace(runs[1].path) as b:
        c = compare(a, b, diagnose(a), diagnose(b))
    assert c.beyond is not None
    assert (c.beyond.step, c.beyond.module, c.beyond.measure, c.beyond.a, c.beyond.b) == (6, "net", "nan_count", 0, 32)


def test_where_recording_was_sampled_the_first_step_is_bounded(run_folder):
    runs = [run_folder(name) for name in ("a", "b")]
    for run, size in zip(runs, (1.0, 2.0), strict=True):
        run.module(0, "net")
        for step in range(12):
            run.step(step)
            if step % 4 == 0:
                run.stat(step, 0, 1.0 if step < 8 else size)
        run.write()
    with Trace(runs[0].path) as a, Trace(runs[1].path) as b:
        c = compare(a, b, diagnose(a), diagnose(b))
    assert c.exact is not None
    assert (c.exact.step_lower, c.exact.step) == (5, 8)


def test_hostile_names_do_nothing_in_the_page_of_a_comparison(run_folder, open_page, tmp_path):
    evil = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    runs = [run_folder(name) for name in ("a", "b<i>")]
    for run, size in zip(runs, (1.0, 2.0), strict=True):
        run.module(0, evil)
        run.config = {evil: size}
        for step in range(4):
            run.step(step)
            run.stat(step, 0, size)
        run.write()
    target = tmp_path / "page.html"
    assert command(runs[0].path, runs[1].path, "-o", target).exit_code == 1
    opened = open_page(target)
    opened.page.wait_for_selector("html[data-curves=drawn]", timeout=20_000)
    assert opened.page.evaluate("window.hacked === undefined")
    assert opened.said == []
    assert evil in opened.page.locator("body").inner_text()
