"""The generated pages are those of the code, and every table, view and column has its sentence."""

from pathlib import Path

from firstfault.analyzer import load_rules
from firstfault.analyzer.reading.views import SHARED, empty_database
from firstfault.analyzer.rules.fault_catalogue import load_catalogue
from firstfault.analyzer.rules.reference import column_docs, rules_page, signals_page, tables_page
from firstfault.schemas import RECORDS, TABLES

DOCS = Path(__file__).parents[3] / "docs"
REMEDY = "run `python -m firstfault.analyzer.rules.reference docs`"


def test_the_page_of_tables_is_up_to_date() -> None:
    assert (DOCS / "tables.md").read_text(encoding="utf-8") == tables_page(), REMEDY


def test_the_page_of_rules_is_up_to_date() -> None:
    assert (DOCS / "rules.md").read_text(encoding="utf-8") == rules_page(), REMEDY


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


def test_every_rule_is_on_the_page() -> None:
    page = rules_page()
    assert all(f"## {r.header.code} {r.header.name}\n" in page for r in load_rules())


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
