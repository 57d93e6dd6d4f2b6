"""Each exception that people know is recognised by a message as it is raised, and has a remedy of its own."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from firstfault.analyzer.rule_cases.case_database import CaseDatabase
from firstfault.analyzer.rule_cases.case_tables import exit_record, manifest
from firstfault.analyzer.rules.rule import find_rule, run_rule

MESSAGES: dict[str, str] = tomllib.loads((Path(__file__).parent / "known_exceptions.toml").read_text(encoding="utf-8"))


@cache
def entries() -> list[tuple[str, str]]:
    with CaseDatabase() as database, database.filled({}, manifest(), None) as trace:
        return trace.sql("SELECT known, pattern FROM known_exceptions ORDER BY place").rows()


def test_every_entry_has_a_message_and_every_message_an_entry() -> None:
    assert [known for known, _ in entries()] == list(MESSAGES)
    assert len(MESSAGES) >= 60


@pytest.mark.parametrize("known", MESSAGES)
def test_the_first_entry_that_matches_is_the_right_one(known: str) -> None:
    matching = [name for name, pattern in entries() if re.search(pattern, MESSAGES[known])]
    assert matching[0] == known


def test_the_remedy_is_the_fix_of_the_finding() -> None:
    rule = find_rule("CR001")
    assert rule is not None
    ended = exit_record(
        status="exception", exit_code=1, exception={"type": "ValueError", "message": MESSAGES["unscale-fp16"]}
    )
    with CaseDatabase() as database, database.filled({}, manifest(), ended) as trace:
        (row,) = run_rule(trace, rule)
    assert "float32" in row["remedy"]
