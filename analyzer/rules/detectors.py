"""A rule of several detectors: each is a SELECT of its own, and the rule gives the rows of all of them.

    -- shared                  what several detectors read: WITH … AS (…), … AS (…)
    -- shared: a_name          one SELECT that the parts after it read by this name; its rows are no findings
    -- detector: a_name        one SELECT; its rows may have columns that those of another detector lack
    -- detector: another
    -- together                what follows the union: a WHERE that holds for all, an ORDER BY; or [WITH …] SELECT … FROM found

A part reads those before it by their names. A file without these lines is one SELECT, as it stands.
"""

import re
from typing import NamedTuple

_MARK = re.compile(r"^-- (shared|detector|together)(?:: ([a-z_]+))?[ ]*\n", re.MULTILINE)


class Section(NamedTuple):
    """A part of a rule's file: its kind, the name of its table or detector, its SQL."""

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
    if kinds != sorted(kinds, key=("shared", "detector", "together").index) or "detector" not in kinds:
        raise ValueError("`-- shared` first, then detectors, then one `-- together`")
    keys = [(s.kind, s.name) for s in found]
    names = [name for _, name in keys if name]
    if ("shared", "") in keys[1:] or ("together", "") in keys[:-1]:
        raise ValueError("one `-- shared` without a name, at the head, and one `-- together` behind all detectors")
    if ("detector", "") in keys or any(kind == "together" and name for kind, name in keys):
        raise ValueError("every detector has a name, and `-- together` has none")
    if len(set(names)) < len(names):
        raise ValueError("a name stands for one table or detector")
    return found


def united(sql: str) -> str:
    """One SELECT that gives the rows of all detectors."""
    sections = sections_of(sql)
    if len(sections) == 1 and not sections[0].name:
        return sections[0].sql
    shared = next((s.sql for s in sections if s.kind == "shared" and not s.name), "")
    together = next((s.sql for s in sections if s.kind == "together"), "")
    detectors = [s for s in sections if s.kind == "detector"]
    tables = [f"{s.name} AS (\n{s.sql}\n)" for s in sections if s.name]
    rows = "\n    UNION ALL BY NAME ".join(f"FROM {d.name}" for d in detectors)
    tables.append(f"found AS (\n    {rows}\n)")
    head = f"{shared}, " if shared else "WITH "
    if together.startswith("WITH "):
        return f"{head}{', '.join(tables)}, {together.removeprefix('WITH ')}"
    end = together if together.startswith("SELECT") else f"FROM found\n{together}".rstrip()
    return f"{head}{', '.join(tables)}\n{end}"
