"""The page in a real browser, opened from disk: nothing is asked from outside, nothing strange is executed."""

from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace
from firstfault.reports.page.render import write_page

HOSTILE = [
    "</script><script>window.hacked=1;alert(1)</script>",
    "<img src=x onerror=window.hacked=1>",
    "a\nnew line",
    "\"quote\" 'single' `back`",
    "层.注意力.🚀",
    "<!-- <script>",
    "{{ 7 * 7 }}",
]


@pytest.fixture
def report(report_of_broken_run: Path) -> Path:
    return report_of_broken_run


@pytest.fixture
def hostile_report(run_folder: Any, make_verdict: Any, make_finding: Any, tmp_path: Path) -> Path:
    run = run_folder(HOSTILE[1].replace("/", "") + " 层")
    for module_id, name in enumerate(HOSTILE):
        run.module(module_id, name, class_name=name, model=name)
    for step in range(8):
        run.step(step)
        for module_id in range(len(HOSTILE)):
            run.stat(step, module_id, None if step > 5 else 1.0)
    run.config = {name: name for name in HOSTILE}
    path = run.write()
    (path / "output.log").write_text("\n".join(HOSTILE))
    evil = HOSTILE[0]
    words = {"module": evil, "tensor": evil, "message": evil, "fix": evil, "sql": evil, "name": evil, "code": evil}
    cause = make_finding(**words, step=6, evidence=[{name: name for name in HOSTILE}])
    verdict = make_verdict(path=evil)
    verdict.causes = [cause]
    verdict.first_anomaly.module = verdict.first_anomaly.tensor = verdict.first_anomaly.signal = evil
    verdict.first_anomaly.step = 6
    with Trace(path) as trace:
        return write_page(trace, verdict, tmp_path / "hostile.html")


def test_a_page_opens_from_disk_without_console_message_or_request(open_page, report):
    opened = open_page(report).drawn()
    assert opened.said == []
    assert opened.asked == [report.as_uri()]
    assert opened.page.locator("#curves-chart svg").count() == 1
    assert opened.page.locator("#health-chart svg").count() == 1
    assert "Step 30" in opened.page.locator("h1").inner_text()


def test_log_scales_several_groups_and_long_runs_draw_without_a_console_message(
    open_page, run_folder, make_verdict, tmp_path
):
    run = run_folder()
    run.module(0, "")
    for step in range(1600):
        run.step(step, lr=1.0 if step == 900 else 1e-3, loss=1e6 if step == 901 else 2.0 + step % 3)
        run.add("param_groups", step=step, optimizer_id=0, group_id=1, lr=1e-4)
    run.stat(899, 0, 1.0)
    verdict = make_verdict()
    verdict.first_anomaly.step = 900
    with Trace(run.write()) as trace:
        page = write_page(trace, verdict, tmp_path / "long.html")
    opened = open_page(page).drawn()
    opened.page.click("[data-range=near]")
    opened.page.wait_for_timeout(500)
    assert opened.said == []
    assert "log scale" in opened.page.locator("#curves-chart").inner_text()
    assert "optimizer 0, group 1" in opened.page.locator("#curves-chart").inner_text()


def test_every_button_works_without_a_console_message(open_page, report):
    opened = open_page(report).drawn()
    for button in opened.page.locator("button").all():
        if button.is_visible():
            button.click()
    opened.page.locator("summary", has_text="The query").first.click()
    opened.page.locator("[data-copy]").first.click()
    opened.page.wait_for_function("document.querySelector('[data-copy]').textContent !== 'Copy'")
    opened.page.wait_for_timeout(300)
    assert opened.said == []


def test_hostile_names_are_shown_and_never_executed(open_page, hostile_report):
    opened = open_page(hostile_report).drawn()
    opened.page.mouse.move(700, 400)
    for d in opened.page.locator("details").all():
        d.evaluate("e => { e.open = true; }")
    opened.page.locator("#health-chart svg .mark-rect path").first.hover()
    opened.page.wait_for_timeout(300)
    assert opened.page.evaluate("window.hacked === undefined")
    assert opened.said == []
    assert opened.asked == [hostile_report.as_uri()]
    body = opened.page.locator("body").inner_text()
    for name in HOSTILE:
        assert name.replace("\n", "\\n") in body, name
    assert opened.page.locator("main img, main script").count() == 0


def test_light_and_dark_follow_the_system_and_the_button_overrules_it(open_page, report):
    light, dark = open_page(report), open_page(report, scheme="dark")
    paper = light.colour("body", "backgroundColor"), dark.colour("body", "backgroundColor")
    assert paper[0] != paper[1]
    dark.page.click("#theme")
    assert dark.colour("body", "backgroundColor") == paper[0]


def test_print_is_dark_on_white_even_from_a_dark_screen_and_unfolds(open_page, report):
    opened = open_page(report, scheme="dark").drawn()
    opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    opened.page.emulate_media(media="print")
    assert opened.colour("body", "backgroundColor") == "rgb(255, 255, 255)"
    assert opened.page.locator("details:not([open])").count() == 0
    assert not opened.page.locator("#theme").is_visible()


@pytest.mark.parametrize("width", [1440, 400])
def test_no_page_scrolls_sideways(open_page, report, width):
    opened = open_page(report, width=width).drawn()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(open_page, report, luminance, scheme):
    """WCAG 2 AA asks for 4.5 to 1 for text of this size."""
    opened = open_page(report, scheme=scheme)
    ground = luminance(opened.colour("body", "backgroundColor"))
    for selector in ("h1", ".hint", ".where", ".facts dt", "td.bad", "nav a"):
        ink = luminance(opened.colour(selector, "color"))
        high, low = max(ink, ground), min(ink, ground)
        assert (high + 0.05) / (low + 0.05) >= 4.5, selector


def test_a_page_without_any_step_opens_cleanly(open_page, run_folder, make_verdict, tmp_path):
    with Trace(run_folder().write()) as trace:
        page = write_page(trace, make_verdict("inconclusive", steps_recorded=0), tmp_path / "empty.html")
    opened = open_page(page)
    opened.page.wait_for_timeout(300)
    assert opened.said == []
    assert "No verdict" in opened.page.locator("h1").inner_text()
