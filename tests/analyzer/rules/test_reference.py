"""The generated pages are those of the code, and every table, view and column has its sentence."""

from pathlib import Path

import pytest
from firstfault.analyzer import load_rules
from firstfault.analyzer.reading.views import SHARED, empty_database
from firstfault.analyzer.rules.fault_catalogue import load_catalogue
from firstfault.analyzer.rules.reference import (
    column_docs,
    layer_page,
    rule_layers,
    rules_page,
    signals_page,
    tables_page,
)
from firstfault.schemas import RECORDS, TABLES

DOCS = Path(__file__).parents[3] / "docs"
REMEDY = "run `python -m firstfault.analyzer.rules.reference docs`"


def test_the_page_of_tables_is_up_to_date() -> None:
    assert (DOCS / "tables.md").read_text(encoding="utf-8") == tables_page(), REMEDY


def test_the_page_of_rules_is_up_to_date() -> None:
    assert (DOCS / "rules.md").read_text(encoding="utf-8") == rules_page(), REMEDY


@pytest.mark.parametrize("layer", rule_layers())
def test_the_page_of_a_layer_is_up_to_date(layer: str) -> None:
    assert (DOCS / "rules" / f"{layer}.md").read_text(encoding="utf-8") == layer_page(layer), REMEDY


def test_every_layer_has_a_page_and_there_is_no_other() -> None:
    assert sorted(page.stem for page in (DOCS / "rules").iterdir()) == rule_layers()


def test_every_shared_view_is_listed_and_described() -> None:
    with empty_database() as con:
        views = dict(
            con.execute(
                "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal ORDER BY view_name"
            ).fetchall()
        )
    shared = {name: doc for name, doc in views.items() if name not in TABLES and name not in RECORDS}
    assert sorted(shared) == sorted(SHARED)
    assert all(shared.values())


def test_every_column_of_every_view_has_a_sentence() -> None:
    known = column_docs()
    with empty_database() as con:
        for view in SHARED:
            columns = con.execute(
                "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [view]
            ).fetchall()
            assert columns
            known |= {name: doc for name, doc in columns if doc}
            assert [name for name, _ in columns if not known.get(name)] == [], view


def test_every_rule_is_in_the_table_and_on_the_page_of_its_layer() -> None:
    table, pages = rules_page(), {layer: layer_page(layer) for layer in rule_layers()}
    for rule in load_rules():
        code, name = rule.header.code, rule.header.name
        assert f"| [{code}](rules/{rule.layer}.md#{code.lower()}-{name}) |" in table
        assert f"## {code} {name}\n" in pages[rule.layer]


def test_the_page_of_signals_is_up_to_date() -> None:
    assert (DOCS / "signals.md").read_text(encoding="utf-8") == signals_page(), REMEDY


def test_every_rule_judges_a_fault_whose_signal_is_recorded() -> None:
    catalogue = load_catalogue()
    assert [r.header.code for r in load_rules() if not catalogue.get(r.header.code, catalogue["CR001"]).signals] == []


def test_every_rule_carries_a_code_and_name_of_the_catalogue() -> None:
    catalogue = {code: fault.name for code, fault in load_catalogue().items()}
    rules = {r.header.code: r.header.name for r in load_rules()}
    assert {c: n for c, n in rules.items() if catalogue.get(c, n) != n} == {}
    assert set(rules) - set(catalogue) == {"NU000"}
