"""A rule of several detectors: each is a SELECT of its own, and the rule gives the rows of all of them.

    -- shared                  what several detectors read: WITH … AS (…), … AS (…)
    -- detector: a_name        one SELECT; its rows may have columns that those of another detector lack
    -- detector: another
    -- together                what follows the union: a WHERE that holds for all, an ORDER BY; or [WITH …] SELECT … FROM found

A file without these lines is one SELECT, as it stands.
"""

import re
from typing import NamedTuple

_MARK = re.compile(r"^-- (shared|detector|together)(?:: ([a-z_]+))?[ ]*\n", re.MULTILINE)


class Section(NamedTuple):
    """A part of a rule's file: its kind, the name of a detector, its SQL."""

    kind: str
    name: str
    sql: str


def sections_of(sql: str) -> list[Section]:
    """The parts of a rule's SQL; one nameless detector where nothing is marked. Raises ValueError for marks out of order."""
    marks = list(_MARK.finditer(sql))
    if not marks:
        return [Section("detector", "", sql.strip())]
    if sql[: marks[0].start()].strip():
        raise ValueError("stands before the first of `-- shared`, `-- detector: name`, `-- together`")
    ends = [m.start() for m in marks[1:]] + [len(sql)]
    found = [Section(m[1], m[2] or "", sql[m.end() : end].strip()) for m, end in zip(marks, ends, strict=True)]
    kinds = [s.kind for s in found]
    names = [s.name for s in found if s.kind == "detector"]
    if kinds != sorted(kinds, key=("shared", "detector", "together").index) or not names:
        raise ValueError("one `-- shared`, then detectors, then one `-- together`")
    if kinds.count("shared") > 1 or kinds.count("together") > 1 or not all(names) or len(set(names)) < len(names):
        raise ValueError("one `-- shared` and one `-- together`, and every detector has a name of its own")
    return found


def united(sql: str) -> str:
    """One SELECT that gives the rows of all detectors."""
    sections = sections_of(sql)
    if len(sections) == 1 and not sections[0].name:
        return sections[0].sql
    shared = next((s.sql for s in sections if s.kind == "shared"), "")
    together = next((s.sql for s in sections if s.kind == "together"), "")
    detectors = [s for s in sections if s.kind == "detector"]
    tables = [f"{d.name} AS (\n{d.sql}\n)" for d in detectors]
    rows = "\n    UNION ALL BY NAME ".join(f"FROM {d.name}" for d in detectors)
    tables.append(f"found AS (\n    {rows}\n)")
    head = f"{shared}, " if shared else "WITH "
    if together.startswith("WITH "):
        return f"{head}{', '.join(tables)}, {together.removeprefix('WITH ')}"
    end = together if together.startswith("SELECT") else f"FROM found\n{together}".rstrip()
    return f"{head}{', '.join(tables)}\n{end}"
