"""The cases of a layer's rules, and what every case must show. One test file a layer, so that workers share them."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import firstfault.analyzer
import pytest
from firstfault.analyzer import Rule, load_rules
from firstfault.analyzer.diagnosis.diagnose import finding_from_rows
from firstfault.analyzer.language import speaking
from firstfault.analyzer.rule_cases.case_database import CaseDatabase
from firstfault.analyzer.rule_cases.cases import Case, cases_beside, judge
from firstfault.analyzer.rules.texts import rule_texts
from firstfault.analyzer.rules.thresholds import RuleSet

ROOT = Path(firstfault.analyzer.__file__).parent / "rules"

SHARED = set.intersection(*(set(text.values) for text in rule_texts("zh").values()))
"""Columns whose words are known for every rule; a rule with columns of its own has to show all that they can hold."""

QUOTED = re.compile("“[^”]*”")
"""What somebody else has written stands between these in Chinese."""

ENGLISH = re.compile(
    r"(?<![\w.`/(])[A-Za-z]?[a-z]+(?:[ ,;:]+[a-z]{2,}){2,}|(?<![\w.`])(?:the|of|and|were|was|not|is) [a-z]+"
)


_cases_in = cache(cases_beside)


def cases_of(rule: Rule) -> list[Case]:
    """Its cases, read once."""
    return _cases_in(ROOT / rule.layer / rule.file)


def cases_of_layer(layer: str) -> list[Any]:
    """Parameters ``rule`` and ``case``."""
    rules = [r for r in load_rules() if r.layer == layer]
    return [pytest.param(r, c, id=f"{r.header.code}-{c['name']}") for r in rules for c in cases_of(r)]


def concerned(rule: Rule, case: Case) -> RuleSet:
    """Rules that settle the causes of a case: its own, those of the causes, and those that explain one of these."""
    named = {rule.header.name, *case.get("causes", [])}
    return RuleSet(tuple(r for r in load_rules() if r.header.name in named or named & set(r.header.explains)))


def check(rule: Rule, case: Case, database: CaseDatabase) -> None:
    """The case holds, by the rules that it concerns. Where its rule fires, no English is left in the Chinese sentence.

    The first case that fires is planned as in the field, the others plainly: a SELECT means the same both ways.
    """
    database.optimize(case["name"] == _first_that_fires(rule))
    judged = judge(rule, case, database, concerned(rule, case))

    assert judged.problems == [], judged.problems
    if judged.rows and _says_more_than_the_first(rule, case):
        said = in_chinese(rule, judged.rows)
        assert not ENGLISH.search(said), said


def _says_more_than_the_first(rule: Rule, case: Case) -> bool:
    """Whether the case is the first of its rule that fires, or the rule has columns of its own to be put into words."""
    own = rule.header.say or set(rule_texts("zh")[rule.header.code].values) - SHARED
    return case["name"] == _first_that_fires(rule) or bool(own)


def _first_that_fires(rule: Rule) -> str:
    return next(c["name"] for c in cases_of(rule) if c.get("expect"))


def in_chinese(rule: Rule, rows: list[dict[str, Any]]) -> str:
    """Message and fix in Chinese, without what is quoted from strangers."""
    with speaking("zh"):
        finding = finding_from_rows(rule, rows).finding
    return QUOTED.sub("“”", f"{finding.message} {finding.fix}")
