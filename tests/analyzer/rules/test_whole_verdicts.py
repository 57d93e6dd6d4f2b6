"""Cases that name causes, judged by every rule: no other one has a word in them. `make test` asks those that are concerned."""

import pytest
from firstfault.analyzer import Rule, load_rules
from firstfault.analyzer.rule_cases.case_database import CaseDatabase
from firstfault.analyzer.rule_cases.cases import Case, judge
from rule_cases import cases_of

CASES = [(r, c) for r in load_rules() for c in cases_of(r) if "causes" in c]


@pytest.mark.suite
@pytest.mark.parametrize(("rule", "case"), [pytest.param(r, c, id=f"{r.header.code}-{c['name']}") for r, c in CASES])
def test_the_causes_of_a_case_are_those_of_all_rules(rule: Rule, case: Case, database: CaseDatabase) -> None:
    assert judge(rule, case, database).problems == []
