"""One opened database a worker: what the cases of all rules share."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from firstfault.analyzer.rule_cases.case_database import CaseDatabase

sys.path.insert(0, str(Path(__file__).parent))  # the tests here are no package and share rule_cases.py


@pytest.fixture(scope="session")
def database() -> Generator[CaseDatabase]:
    with CaseDatabase() as opened:
        yield opened
