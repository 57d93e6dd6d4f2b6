"""What every rule must have, and every layer of rules."""

import re
from pathlib import Path

import pytest
from firstfault.analyzer import Rule, load_rules
from firstfault.analyzer.rules.fault_catalogue import load_catalogue
from firstfault.analyzer.rules.rule import classes_of, load_own_rules
from rule_cases import ROOT, cases_of

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


def test_a_class_has_several_members_and_no_name_of_a_rule_and_none_explains_its_own() -> None:
    classes = classes_of(RULES)
    assert len(classes) >= 5
    assert not set(classes) & {r.header.name for r in RULES}
    assert all(len(members) > 1 for members in classes.values())


def test_a_class_stands_for_its_members(tmp_path: Path) -> None:
    given = next(r for r in RULES if "loss-off-course" in r.header.classes)
    assert {"divergence", "loss-spike"} == set(classes_of(RULES)["loss-off-course"])
    explaining = next(r for r in RULES if r.header.name == "outlier-batch")
    assert {"divergence", "loss-spike"} <= set(explaining.header.explains)
    text = (ROOT / given.layer / given.file).read_text("utf-8")
    text = text.replace(given.header.code, "XX001").replace(f'name = "{given.header.name}"', 'name = "mine"')
    text = re.sub(r"^(is|explains) = .*\n", "", text, flags=re.MULTILINE)
    own = text.replace("slack = ", 'explains = ["loss-off-course", "plateau"]\nslack = ', 1)
    assert own != text
    (tmp_path / "XX001_mine.sql").write_text(own)
    (mine,) = load_own_rules(tmp_path)
    assert mine.header.explains == ("divergence", "loss-spike", "plateau")


def test_a_rule_explains_only_names_of_the_catalogue() -> None:
    known = {r.header.name for r in RULES} | {fault.name for fault in load_catalogue().values()}
    unknown = {n for r in RULES for n in r.header.explains} - known
    assert unknown == set()
