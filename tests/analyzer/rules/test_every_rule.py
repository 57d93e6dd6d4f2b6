"""What every rule must have, and every layer of rules."""

import re
from pathlib import Path

import pytest
from firstfault.analyzer import Rule, load_rules
from firstfault.analyzer.rules.fault_catalogue import load_catalogue
from rule_cases import cases_of

RULES = load_rules()


def test_every_layer_has_a_file_that_runs_its_cases() -> None:
    files = {p.stem.removeprefix("test_") for p in Path(__file__).parent.glob("test_*.py")}
    assert {r.layer for r in RULES} <= files


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.header.code)
def test_every_rule_has_a_case_that_fires_and_one_that_stays_silent(rule: Rule) -> None:
    cases = cases_of(rule)
    assert any(c.get("expect") for c in cases)
    assert any(c.get("expect") == [] for c in cases)
    assert len({c["name"] for c in cases}) == len(cases)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.header.code)
def test_every_rule_says_what_it_is(rule: Rule) -> None:
    h = rule.header
    for text in (
        h.message,
        h.fix,
        h.doc.what,
        h.doc.why,
        h.doc.not_this,
        h.doc.source,
        *(p.doc for p in h.params.values()),
    ):
        assert text.strip()
    assert re.fullmatch(r"[A-Z]{2}\d{3}", h.code)
    assert rule.file == f"{h.code}_{h.name.replace('-', '_')}.sql"
    used = set(re.findall(r"\$([a-z_]+)", rule.select))
    assert used == set(h.params)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.header.code)
def test_no_rule_counts_with_a_filter_over_a_window(rule: Rule) -> None:
    """DuckDB evaluates `count(*) FILTER (…) OVER` in time that grows with the square of the rows: 12 s at 288,000 steps."""
    assert not re.search(r"count\(\*\)\s+FILTER\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*OVER\b", rule.select)


def test_codes_and_names_are_unique() -> None:
    assert len({r.header.code for r in RULES}) == len(RULES)
    assert len({r.header.name for r in RULES}) == len(RULES)


def test_explaining_has_no_circles() -> None:
    explains = {r.header.name: set(r.header.explains) for r in RULES}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        if name not in done:
            for below in explains.get(name, set()):
                visit(below, (*path, name))
            done.add(name)

    for name in explains:
        visit(name, ())


def test_a_rule_explains_only_names_of_the_catalogue() -> None:
    known = {r.header.name for r in RULES} | {fault.name for fault in load_catalogue().values()}
    unknown = {n for r in RULES for n in r.header.explains} - known
    assert unknown == set()
