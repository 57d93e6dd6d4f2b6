"""The cases of the rules in rules/memory."""

import pytest
from firstfault.analyzer import Rule
from firstfault.analyzer.rule_cases.case_database import CaseDatabase
from firstfault.analyzer.rule_cases.cases import Case
from rule_cases import cases_of_layer, check


@pytest.mark.parametrize(("rule", "case"), cases_of_layer("memory"))
def test_a_case_holds_and_leaves_no_english_in_chinese(rule: Rule, case: Case, database: CaseDatabase) -> None:
    check(rule, case, database)
