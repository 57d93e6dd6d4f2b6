"""The playbook of a cause: every rule has one, in order, with commands that a shell takes as they are."""

import shlex
from pathlib import Path

import pytest
from firstfault.analyzer import Trace
from firstfault.analyzer.rules.rule import load_rules
from firstfault.reports.page.render import write_page
from firstfault.reports.sections.playbook import playbook, rule_words, tries
from firstfault.schemas import CaptureMeta


def test_a_fix_with_several_clauses_becomes_several_tries():
    assert tries("Lower lr; clip (0.5; 1); or use `a; b`.") == ["Lower lr.", "Clip (0.5; 1).", "Or use `a; b`."]
    assert tries("") == []


@pytest.mark.parametrize("rule", load_rules(), ids=lambda r: r.header.code)
def test_every_rule_has_a_playbook_that_rules_out_changes_and_confirms(rule, make_finding):
    cause = make_finding(code=rule.header.code, name=rule.header.name, fix=rule.header.fix)
    kinds = [s.kind for s in playbook(cause, Path("run"), [], (0, 99))]
    order = ["look", "rule out", "change", "confirm"]
    assert kinds == sorted(kinds, key=order.index)
    assert {"look", "change", "confirm"} <= set(kinds)
    assert rule_words(cause) is not None


def test_commands_survive_a_hostile_folder(make_finding):
    run = Path("runs/it's $(rm x) `y`")
    meta = CaptureMeta(capture="c", rank=0, step=30, microbatch=0, reason="loss", time_ns=0)
    steps = playbook(make_finding(), run, [(run / "captures/c", meta)], None)
    words = [shlex.split(s.command) for s in steps if s.command]
    assert words[0] == ["firstfault", "replay", str(run / "captures/c")]
    assert words[-1] == ["firstfault", "compare", str(run), "NEW"]


def test_a_rule_of_the_users_own_has_a_playbook_without_our_words(make_finding):
    cause = make_finding(code="XX001", name="my-own")
    assert rule_words(cause) is None
    assert "rule out" not in {s.kind for s in playbook(cause, Path("run"), [], None)}


def test_the_checklist_is_on_the_page_and_copies(open_page, broken_run, make_verdict, tmp_path):
    with Trace(broken_run.write()) as trace:
        path = write_page(trace, make_verdict(), tmp_path / "report.html")
    opened = open_page(path, width=400).drawn()
    box = opened.page.locator(".playbook input").first
    box.check()
    assert box.is_checked()
    assert "firstfault compare" in opened.page.locator(".playbook").inner_text()
    opened.page.locator(".playbook [data-copy]").first.click()
    opened.page.wait_for_function("document.querySelector('.playbook [data-copy]').textContent !== 'Copy'")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert opened.said == []
