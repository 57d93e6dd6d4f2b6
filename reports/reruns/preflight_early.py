"""Findings that are true of a few steps and tell nothing of a run: what a script does later, by its source or by its modules."""

import ast
from pathlib import Path

from ...analyzer import Trace
from ...analyzer.verdict import Finding
from .preflight_schedules import OTHERS_STEP, last_name, parsed
from .rerun_script import Script

_CHOICES = ("ModuleList", "ModuleDict")


def too_early(trace: Trace, script: Script, finding: Finding) -> bool:
    """Whether more steps may show that there is no fault."""
    match finding.name:
        case "scheduler-never-stepped":
            return _steps_now_and_then(script)
        case "unused-module":
            return _is_one_of_several(trace, finding)
        case _:
            return False


def _steps_now_and_then(script: Script) -> bool:
    """Whether the source steps a scheduler at every so many steps: in a condition on a remainder."""
    try:
        source = ((script.folder or Path()) / script.target).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    tree = parsed(source)
    conditions = [n for n in ast.walk(tree) if isinstance(n, ast.If)] if tree is not None else []
    return any(
        isinstance(n, ast.Attribute)
        and n.attr == "step"
        and (name := last_name(n.value))
        and not OTHERS_STEP.search(name)
        for condition in conditions
        if any(isinstance(part, ast.Mod) for part in ast.walk(condition.test))
        for statement in condition.body
        for n in ast.walk(statement)
    )


def _is_one_of_several(trace: Trace, finding: Finding) -> bool:
    """Whether a module that was never called stands in a list or dictionary of which others were: a stage may come later."""
    return bool(
        trace.sql(
            "SELECT count(*) AS n FROM modules m JOIN modules p ON p.rank = m.rank AND p.module_id = m.parent_id"
            " JOIN modules o ON o.rank = m.rank AND o.parent_id = m.parent_id AND o.call_order IS NOT NULL"
            " WHERE m.rank = $rank AND m.module = $module AND m.call_order IS NULL"
            " AND list_contains($choices, p.class_name)",
            {"rank": finding.rank, "module": finding.module or "", "choices": list(_CHOICES)},
        ).item()
    )
