"""Rules do not grow: what is too long, too wide or has no name becomes less, or the test says where it has become more."""

import pytest
import rule_sizes
from firstfault.analyzer import load_rules
from rule_sizes import Excess

SOURCES = ("arithmetic", "own history", "convention: ", "case: ")


def test_no_rule_has_more_of_what_is_too_much_than_the_ledger_allows() -> None:
    allowed = rule_sizes.known()
    more = {
        code: (excess, allowed.get(code, Excess()))
        for code, excess in rule_sizes.measured().items()
        if any(now > then for now, then in zip(excess, allowed.get(code, Excess()), strict=True))
    }
    assert more == {}, (
        "(found, allowed) as (detectors too long, lines too wide, bare numbers, sentences):"
        " split it, name the numbers, say it in the header"
    )


def test_the_ledger_allows_no_more_than_there_is() -> None:
    assert rule_sizes.LEDGER.read_text("utf-8") == rule_sizes.ledger(rule_sizes.measured()), (
        "python tests/house/rule_sizes.py --write"
    )


def test_every_threshold_has_a_source_of_one_of_four_kinds() -> None:
    said = {f"{r.header.code}.{n}": p.source for r in load_rules() for n, p in r.header.params.items()}
    assert said
    assert {key: source for key, source in said.items() if not source.startswith(SOURCES)} == {}
    assert {key: source for key, source in said.items() if not source.partition(":")[2].strip() and ":" in source} == {}


@pytest.mark.parametrize(
    ("sql", "bare"),
    [
        ("SELECT step FROM steps WHERE loss > 3.5 * $usual AND n >= 20", ["3.5", "20"]),
        ("SELECT printf('%.3g of 64', loss) FROM steps -- 7 of them", []),
        ("SELECT t2.step, 1e-8 AS eps FROM x2 t2 WHERE n BETWEEN 0 AND 2", ["1e-8"]),
    ],
)
def test_a_bare_number_is_one_that_stands_in_the_sql_itself(sql: str, bare: list[str]) -> None:
    assert rule_sizes.bare_numbers(sql) == bare


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT 'the loss is flat' AS what_, 'flat' AS reason FROM steps", ["'the loss is flat'"]),
        ("SELECT step FROM exits WHERE regexp_matches(exception_message, 'out of memory') AND name LIKE 'of all'", []),
    ],
)
def test_a_sentence_is_what_people_read(sql: str, said: list[str]) -> None:
    assert rule_sizes.sentences(sql) == said
