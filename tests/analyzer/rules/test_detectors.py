"""A rule's file may hold several detectors: their rows are the rule's."""

import duckdb
import pytest
from firstfault.analyzer.rules.detectors import sections_of, united

TWO = """\
-- shared
WITH numbers AS (SELECT unnest([1, 5, 9]) AS n)
-- detector: small
SELECT n, 'small' AS what FROM numbers WHERE n < 5
-- detector: large
WITH squares AS (SELECT n, n * n AS square FROM numbers)
SELECT n, square FROM squares WHERE n > 5
-- together
ORDER BY n DESC"""


def test_a_rule_without_marks_is_as_it_stands() -> None:
    assert united("SELECT 1 AS step -- one\n") == "SELECT 1 AS step -- one"


def test_the_rows_of_all_detectors_come_together_with_null_for_what_one_does_not_say() -> None:
    rows = duckdb.sql(united(TWO))
    assert rows.columns == ["n", "what", "square"]
    assert rows.fetchall() == [(9, None, 81), (1, "small", None)]


def test_a_select_at_the_end_takes_what_was_found() -> None:
    sql = TWO.replace("ORDER BY n DESC", "SELECT max(n) AS most FROM found")
    assert duckdb.sql(united(sql)).fetchall() == [(9,)]


def test_a_shared_select_is_read_by_its_name_and_gives_no_finding() -> None:
    sql = TWO.replace("-- detector: small", "-- shared: even\nSELECT n + 1 AS n FROM numbers\n-- detector: small")
    sql = sql.replace("FROM numbers WHERE n < 5", "FROM even WHERE n < 5")
    assert duckdb.sql(united(sql)).fetchall() == [(9, None, 81), (2, "small", None)]


def test_a_detector_reads_the_one_before_it_by_its_name() -> None:
    sql = TWO.replace("WHERE n > 5", "WHERE n > 5 AND n > (SELECT max(n) FROM small) * 9")
    assert duckdb.sql(united(sql)).fetchall() == [(1, "small", None)]


def test_parts_are_told_apart_by_kind_and_name() -> None:
    assert [(s.kind, s.name) for s in sections_of(TWO)] == [
        ("shared", ""),
        ("detector", "small"),
        ("detector", "large"),
        ("together", ""),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1\n-- detector: a\nSELECT 2",
        "-- detector: a\nSELECT 1\n-- shared\nWITH b AS (SELECT 1)",
        "-- shared\nWITH b AS (SELECT 1)\n-- together\nORDER BY 1",
        "-- detector: a\nSELECT 1\n-- detector: a\nSELECT 2",
        "-- detector\nSELECT 1\n",
        "-- shared: a\nSELECT 1\n-- shared\nWITH b AS (SELECT 1)\n-- detector: c\nSELECT 2",
        "-- shared: a\nSELECT 1\n-- detector: a\nSELECT 2",
        "-- detector: a\nSELECT 1\n-- together: b\nORDER BY 1",
    ],
)
def test_marks_out_of_order_are_refused(sql: str) -> None:
    with pytest.raises(ValueError, match="detector"):
        united(sql)
