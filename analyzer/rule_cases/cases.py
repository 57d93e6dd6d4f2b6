"""The cases of a rule: rows that are given, rows that are expected; in the file beside the rule.

    [[case]]
    name = "a sentence"
    given.steps = [{ step = "0..9", loss = ["1.0, 1.1 x9", 5.0] }]
    expect = [{ step = 9 }]            # or [] for silence, or not_evaluable = "…" instead

More keys: ``exit`` (columns of exit.json; "missing": the run was lost on this host, "missing elsewhere": on another), ``run``
(of run.json), ``says`` (parts of the message), ``causes`` (the whole verdict's causes by name).
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from time import time_ns
from typing import Any

import msgspec

from ...schemas import TABLES, ExitRecord, RunManifest
from ...schemas.files.manifest import encode_json
from ..diagnosis.diagnose import diagnose, finding_from_rows
from ..errors import RuleError
from ..reading.trace import Trace
from ..rules.rule import Rule, run_rule, seeks_in_vain, why_not_evaluable
from ..rules.thresholds import RuleSet
from .case_database import CaseDatabase
from .case_tables import Rows, exit_record, expand, filled, manifest

Case = dict[str, Any]


def cases_beside(file: Path) -> list[Case]:
    """Cases of the rule in this file; none where there is no file of cases. Raises RuleError naming a file that is not TOML."""
    path = file.with_name(file.name.removesuffix(".sql") + ".cases.toml")
    if not path.exists():
        return []
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("case", [])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise RuleError(f"{path}: cannot be read ({e})") from e
    for case in found:
        if not isinstance(case.get("name"), str) or not isinstance(case.get("given"), dict):
            raise RuleError(f"{path}: every case needs a name and given rows")
        if "expect" not in case and "not_evaluable" not in case:
            raise RuleError(f"{path}: case {case['name']!r} says neither what it expects nor why it is not evaluable")
    return found


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a case: what is not as the case has it, and the rows that its rule gave."""

    problems: list[str]
    rows: list[dict[str, Any]]


def judge(rule: Rule, case: Case, database: CaseDatabase, verdict_of: RuleSet | None = None) -> Judged:
    """Run a rule on its case; no problem where the case holds. A case that names ``causes`` is judged by all our rules, or by
    ``verdict_of``. Raises RuleError for a table or column that does not exist."""
    with database.filled(_tables(case), *_records(case)) as trace:
        why = why_not_evaluable(trace, rule)
        rows = run_rule(trace, rule) if why is None and "expect" in case else []
        problems = list(_compare(trace, rule, case, why, rows, verdict_of))
        if why is None and seeks_in_vain(trace, rule) and (found := trace.rows(rule.select, rule.params)):
            problems.append(f"seeks rows that are not there, but its SELECT gives {found[0]}")
        return Judged(problems, rows)


def _tables(case: Case) -> dict[str, Rows]:
    """Rows that a case gives, by table."""
    given: dict[str, Rows] = {}
    for table, groups in case["given"].items():
        if table not in TABLES:
            raise RuleError(f"there is no table {table!r}; docs/tables.md lists them")
        given[table] = filled(table, [row for g in groups for row in expand(g, TABLES[table])])
    return given


def _records(case: Case) -> tuple[RunManifest, ExitRecord | None]:
    """Manifest and exit record of a case, as they are read from their files."""
    ended = case.get("exit", {})
    here = {"hostname": gethostname()} if ended == "missing" else {}
    started = manifest(started_ns=time_ns(), **here, **case.get("run", {}))
    exit_ = exit_record(**ended) if isinstance(ended, dict) else None
    return msgspec.json.decode(encode_json(started), type=RunManifest), exit_


def _compare(
    trace: Trace, rule: Rule, case: Case, why: str | None, rows: list[dict[str, Any]], verdict_of: RuleSet | None
) -> Iterator[str]:
    if "not_evaluable" in case:
        if case["not_evaluable"] not in (why or ""):
            yield f"should not be evaluable because {case['not_evaluable']!r}, but {why or 'it is'}"
        return
    if why is not None:
        yield f"is not evaluable: {why}"
        return
    expected = case["expect"]
    yield from _differences(rows, expected)
    if expected and rows:
        message = finding_from_rows(rule, rows).finding.message
        for part in case.get("says", []):
            if part not in message:
                yield f"the message lacks {part!r}: {message}"
    if "causes" in case:  # a verdict runs many rules: only where the case is about their order
        causes = [c.name for c in diagnose(trace, verdict_of).causes]
        if causes != case["causes"]:
            yield f"the causes are {causes}, expected {case['causes']}"


def _differences(rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> Iterator[str]:
    if not expected and rows:
        yield f"should be silent, but fired at {rows[0]}"
    if len(rows) < len(expected):
        yield f"fired {len(rows)} times, expected {len(expected)}"
    for row, wanted in zip(rows, expected, strict=False):
        for column, given in wanted.items():
            value = None if given == "@null" else given
            if row.get(column) != value:
                yield f"{column} is {row.get(column)!r}, expected {value!r}"
