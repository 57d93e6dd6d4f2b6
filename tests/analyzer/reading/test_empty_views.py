"""Shared views that are taken for empty without being computed: they are, and their columns are those of the views."""

from typing import Any

import pytest
from firstfault.analyzer import load_rules
from firstfault.analyzer.reading import empty_views
from firstfault.analyzer.reading.views import shared_selects, shared_wants
from firstfault.analyzer.rule_cases import case_database
from firstfault.analyzer.rule_cases.cases import cases_beside, judge
from firstfault.analyzer.rules.thresholds import RuleSet
from firstfault.schemas import RECORDS, TABLES

LAYERS = sorted({rule.layer for rule in load_rules()})


def test_the_written_columns_are_those_of_the_views() -> None:
    again = "run python -m firstfault.analyzer.reading.empty_views"
    assert empty_views.FILE.read_text(encoding="utf-8") == empty_views.statements(), again


def test_what_a_view_is_empty_without_is_a_table_or_a_view_before_it() -> None:
    known = {*TABLES, *RECORDS}
    for view in shared_selects():
        assert {table for table, _ in shared_wants().get(view, ())} <= known, view
        known.add(view)


@pytest.mark.parametrize(
    "layer", [pytest.param(x, marks=[] if x == "distributed" else pytest.mark.suite) for x in LAYERS]
)
def test_in_every_case_of_a_rule_a_view_that_is_taken_for_empty_is_empty(
    layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: dict[str, int] = {}

    class Computing(case_database._CaseViews):
        def _materialise(self, name: str) -> None:
            empty = self._is_empty(name)
            self._con.execute(f'CREATE OR REPLACE TABLE "{name}" AS {self._selects[name]}')
            if empty:
                rows: list[Any] = self._con.execute(f'SELECT count(*) FROM "{name}"').fetchall()  # noqa: S608 # our own names
                taken[name] = max(taken.get(name, 0), rows[0][0])

    monkeypatch.setattr(case_database, "_CaseViews", Computing)
    root = empty_views.FILE.parents[1] / "rules"
    with case_database.CaseDatabase() as database:
        for rule in load_rules():
            for case in cases_beside(root / rule.layer / rule.file) if rule.layer == layer else []:
                judge(rule, case, database, RuleSet((rule,)))

    assert taken
    assert not any(taken.values()), taken
