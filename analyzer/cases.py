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
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from time import time_ns
from typing import Any

from ..schemas import TABLES, write_json
from ..schemas.layout import EXIT_JSON, RUN_JSON
from .case_tables import exit_record, expand, filled, manifest, write_part
from .diagnose import diagnose, fired_by
from .errors import RuleError
from .rules import Rule, missing, run_rule
from .trace import Trace

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


def problems(rule: Rule, case: Case) -> list[str]:
    """What is not as the case has it; empty where it holds. Raises RuleError for a table or column that does not exist."""
    with TemporaryDirectory(prefix="firstfault-case-") as folder, Trace(recorded(Path(folder), case)) as trace:
        trace.prepare(None if "causes" in case else rule.select)  # a verdict runs every rule
        return list(_compare(trace, rule, case))


def recorded(folder: Path, case: Case) -> Path:
    """The run that a case gives, written into this folder. Raises RuleError for a table or column that does not exist."""
    run = folder / "run"
    run.mkdir()
    ended = case.get("exit", {})
    here = {"hostname": gethostname()} if ended == "missing" else {}
    write_json(run / RUN_JSON, manifest(started_ns=time_ns(), **here, **case.get("run", {})))
    if isinstance(ended, dict):
        write_json(run / EXIT_JSON, exit_record(**ended))
    for table, groups in case["given"].items():
        if table not in TABLES:
            raise RuleError(f"there is no table {table!r}; docs/tables.md lists them")
        write_part(run, table, filled(table, [row for g in groups for row in expand(g, TABLES[table])]))
    return run


def _compare(trace: Trace, rule: Rule, case: Case) -> Iterator[str]:
    why = missing(trace, rule)
    if "not_evaluable" in case:
        if case["not_evaluable"] not in (why or ""):
            yield f"should not be evaluable because {case['not_evaluable']!r}, but {why or 'it is'}"
        return
    if why is not None:
        yield f"is not evaluable: {why}"
        return
    rows, expected = run_rule(trace, rule), case["expect"]
    yield from _rows(rows, expected)
    if expected and rows:
        message = fired_by(rule, rows).finding.message
        for part in case.get("says", []):
            if part not in message:
                yield f"the message lacks {part!r}: {message}"
    if "causes" in case:  # a verdict runs every rule: only where the case is about their order
        causes = [c.name for c in diagnose(trace).causes]
        if causes != case["causes"]:
            yield f"the causes are {causes}, expected {case['causes']}"


def _rows(rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> Iterator[str]:
    if not expected and rows:
        yield f"should be silent, but fired at {rows[0]}"
    if len(rows) < len(expected):
        yield f"fired {len(rows)} times, expected {len(expected)}"
    for row, wanted in zip(rows, expected, strict=False):
        for column, given in wanted.items():
            value = None if given == "@null" else given
            if row.get(column) != value:
                yield f"{column} is {row.get(column)!r}, expected {value!r}"
