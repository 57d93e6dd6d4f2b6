"""Find rules by glob, read each from two files side by side, and run it as one SELECT.

A rule's `.sql` file begins with a comment that is TOML: what the rule is called, says and needs. One SELECT follows, or several
detectors (`detectors.py`). Every row of the SELECT is one place where the rule fired. It must have `step`. It may have rank,
microbatch, seq, phase, module, tensor, value, severity, reach and slack, which override the header, and whatever the message
quotes. It may have step_lower where the rule looks at what is measured only now and then.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..errors import QueryError, RuleError
from ..language import say
from ..reading.trace import Trace
from ..reading.views import quote
from .detectors import united

Severity = Literal["fatal", "error", "warning"]


class Param(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number that the SELECT takes as `$name`. ``source`` says what kind of number it is: `arithmetic`, `own history`,
    `convention: <reference>`, or `case: <name>` where one training made it necessary."""

    value: float | int | str
    doc: str
    unit: str = ""
    source: str = ""


class Needs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must have been recorded before the rule can say anything: tables with rows, columns with a value, kinds of
    tensors with measurements, and steps of history. Or one of the exceptions ``or_raised`` (names of known_exceptions) ended
    the run: it says enough by itself."""

    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    steps: int = 0
    ended: bool = False
    or_raised: tuple[str, ...] = ()


class Doc(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rule explained to a reader: what it looks at, why that is bad, what it leaves alone, whence its thresholds."""

    what: str
    why: str
    not_this: str
    source: str


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"classes": "is"}):
    """The TOML header. ``signals`` are the `table.column` that hold the signal of a fault that catalogue.toml does not have.

    ``explains`` names the symptoms that this rule accounts for. In a file it may name a class of them, and ``is`` lists the
    classes that a rule belongs to; once all rules are read only names are left. ``tames`` are those of them that make no error of
    this finding where it is a warning: they say the same of the same place. ``reach`` is how many steps before this finding
    its own explanation may lie (null: any number), ``slack`` how many steps after it. ``say`` has a table for each column of the
    rows that holds a reason: reason → the words for it, with the row's values in {braces}. Where the column is null nothing is
    said. The words may name columns that come before theirs in ``say``. The column may hold a list of structs instead, each a
    row with a reason in that column: they are said one after another.

    ``seeks`` are rows without which the SELECT can give none, each as `table: condition` of one row, or a list of these of which
    one is enough. Where one of them is not there, the rule stays silent, and its SELECT is not run: to plan it costs more than
    to look.
    """

    code: str
    name: str
    severity: Severity
    phase: str
    signal: str
    message: str
    fix: str
    doc: Doc
    say: dict[str, dict[str, str]] = {}
    params: dict[str, Param] = {}
    needs: Needs = Needs()
    signals: tuple[str, ...] = ()
    seeks: tuple[str | tuple[str, ...], ...] = ()
    explains: tuple[str, ...] = ()
    tames: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    reach: int | None = None
    slack: int = 0
    generic: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its header, the SELECT, and the files they came from."""

    header: Header
    select: str
    layer: str
    file: str

    @property
    def params(self) -> dict[str, float | int | str]:
        """Values for the named parameters of the SELECT."""
        return {name: p.value for name, p in self.header.params.items()}

    @property
    def sql(self) -> str:
        """The SELECT with its parameters written in, ready for `firstfault sql`."""
        return self._with_numbers(self.select)

    @property
    def sought(self) -> list[list[tuple[str, str]]]:
        """Tables and conditions that ``seeks`` names: of each list one must be met."""
        return [
            [
                (table, self._with_numbers(condition))
                for table, _, condition in (s.partition(": ") for s in entries(given))
            ]
            for given in self.header.seeks
        ]

    def _with_numbers(self, sql: str) -> str:
        return re.sub(r"\$([a-z_]+)", lambda m: _literal(self.params[m[1]]), sql)


def _literal(value: float | str) -> str:
    return quote(value) if isinstance(value, str) else repr(value)


def entries(given: str | tuple[str, ...]) -> tuple[str, ...]:
    """One entry of ``seeks`` as a list."""
    return (given,) if isinstance(given, str) else given


@cache
def load_rules() -> tuple[Rule, ...]:
    """Every rule by code. Raises RuleError naming the file whose header or shape is wrong."""
    rules: list[Rule] = []
    root = files("firstfault.analyzer") / "rules"
    for layer in sorted((d for d in root.iterdir() if d.is_dir() and d.name[0] != "_"), key=lambda d: d.name):
        found = sorted((f for f in layer.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
        rules.extend(parse_rule(f.read_text(encoding="utf-8"), layer.name, f.name) for f in found)
    classes = classes_of(rules)
    return tuple(sorted((_explaining_names(rule, classes) for rule in rules), key=lambda r: r.header.code))


def classes_of(rules: Iterable[Rule]) -> dict[str, tuple[str, ...]]:
    """Class of symptoms → names of the rules that belong to it, in order."""
    found: dict[str, list[str]] = {}
    for rule in rules:
        for name in rule.header.classes:
            found.setdefault(name, []).append(rule.header.name)
    return {name: tuple(sorted(members)) for name, members in found.items()}


def _explaining_names(rule: Rule, classes: Mapping[str, tuple[str, ...]]) -> Rule:
    """The rule with the members of each class in the place of the class, every name once."""
    names = [member for name in rule.header.explains for member in classes.get(name, (name,))]
    return replace(rule, header=msgspec.structs.replace(rule.header, explains=tuple(dict.fromkeys(names))))


def load_own_rules(folder: Path) -> tuple[Rule, ...]:
    """A user's rules: every .sql file below a folder. Raises RuleError naming the file, or where there is none."""
    found = sorted(folder.rglob("*.sql")) if folder.is_dir() else []
    if not found:
        raise RuleError(f"{folder}: no rule in it; a rule is a .sql file, see CONTRIBUTING")
    try:
        rules = [parse_rule(f.read_text(encoding="utf-8"), folder.name, f.name) for f in found]
        classes = classes_of([*load_rules(), *rules])
        return tuple(_explaining_names(rule, classes) for rule in rules)
    except (OSError, UnicodeDecodeError) as e:
        raise RuleError(f"{folder}: a rule cannot be read ({e})") from e


def parse_rule(text: str, layer: str, file: str) -> Rule:
    """A rule from the text of its file. Raises RuleError."""
    if not text.startswith("/*") or "*/" not in text:
        raise RuleError(f"{file}: a rule begins with a /* TOML */ comment; see CONTRIBUTING")
    comment, _, select = text[2:].partition("*/")
    try:
        header = msgspec.convert(tomllib.loads(comment), Header)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as e:
        raise RuleError(f"{file}: header is not as it should be: {e}") from e
    if not file.startswith(f"{header.code}_"):
        raise RuleError(f"{file}: named unlike its code {header.code}")
    if unlike := next((one for given in header.seeks for one in entries(given) if ": " not in one), None):
        raise RuleError(f"{file}: seeks {unlike!r}, which is no `table: condition`")
    try:
        return Rule(header, united(select.strip().rstrip(";")), layer, file)
    except ValueError as e:
        raise RuleError(f"{file}: {e}") from e


def find_rule(key: str) -> Rule | None:
    """The rule of a name or a code, in any case of letters."""
    return next((r for r in load_rules() if key.lower() in {r.header.code.lower(), r.header.name}), None)


def why_not_evaluable(trace: Trace, rule: Rule) -> str | None:
    """Why the rule cannot be judged on this trace, or None. Null is not zero: an unrecorded column is a reason."""
    needs = rule.header.needs
    if needs.or_raised and _raised(trace, needs.or_raised):
        return None
    if needs.ended and trace.exit is None and trace.status == "running":
        return say("the run has not ended")
    for table in needs.tables:
        if not trace.has(table):
            return say("no rows of {table} were recorded", table=table)
    for kind in needs.kinds:
        if kind not in trace.measured_kinds():
            return say("no tensor of kind {kind} was measured", kind=kind)
    for column in needs.columns:
        table, _, name = column.partition(".")
        if name not in trace.filled(table):
            return say("{column} was not recorded", column=column)
    if (steps := trace.steps_covered()) < needs.steps:
        return say("{steps} steps recorded, needs {least} to compare with", steps=steps, least=needs.steps)
    return None


def _raised(trace: Trace, known: tuple[str, ...]) -> bool:
    """Whether one of these well-known exceptions ended a rank."""
    if trace.exit is None:
        return False
    asked = (
        "SELECT count(*) AS n FROM exits e JOIN known_exceptions k ON regexp_matches(e.exception_message, k.pattern) "
        "WHERE list_contains($known, k.known)"
    )
    return trace.rows(asked, {"known": list(known)})[0]["n"] > 0


def seeks_in_vain(trace: Trace, rule: Rule) -> bool:
    """Whether rows are missing without which the rule's SELECT gives none. Raises QueryError."""
    return not all(any(trace.may_have(table, condition) for table, condition in wanted) for wanted in rule.sought)


def run_rule(trace: Trace, rule: Rule) -> list[dict[str, Any]]:
    """Places where the rule fired, first in time first. Raises RuleError with the rule's file on a failing SELECT."""
    try:
        if seeks_in_vain(trace, rule):
            return []
        rows = trace.rows(rule.select, rule.params)
    except QueryError as e:
        raise RuleError(f"{rule.file}: {e}") from e
    return sorted(rows, key=lambda row: (row.get("severity") == "warning", *_moment(row)))


def _moment(row: Mapping[str, Any]) -> tuple[int, int]:
    """Time only: inside a step the rule's own ORDER BY says which row speaks for it. What knows no step comes first."""
    return -1 if row["step"] is None else int(row["step"]), int(row.get("rank") or 0)
