"""Schedulers that the script builds and steps nowhere: none of their steps was recorded, and its source holds no call of one."""

import ast
import re
from pathlib import Path

from ...analyzer import Trace
from ...schemas.files.layout import RUN_JSON
from ..text.language import say
from ..text.wording import plural
from .preflight_facts import Fact
from .rerun_script import Script

_LEAST = 10
"""Steps before silence means anything. Convention: that of scheduler-never-stepped (OP009)."""

_LOOKS = frozenset(
    {"state_dict", "load_state_dict", "get_last_lr", "get_lr", "last_epoch", "base_lrs", "optimizer", "print_lr"}
)
"""What a script may ask of a scheduler without handing it over to anything that could step it."""

_LARGEST = 300_000
"""Letters of a file that is parsed: half a second for each million."""


OTHERS_STEP = re.compile(r"opt|scaler|grad|env|game|simulat|world|prof", re.IGNORECASE)
"""Names of what is stepped and is no scheduler."""


def never_stepped(trace: Trace, script: Script, again: Path | None = None) -> list[Fact]:
    """Schedulers that live from the first step to the last, wait for no metric, and are stepped nowhere. ``again``: a start in
    which the end of an epoch was rehearsed."""
    if script.module:
        return []
    found = trace.sql(
        "SELECT any_value(scheduler) AS scheduler, count(DISTINCT step) AS steps FROM schedulers WHERE rank = 0"
        " GROUP BY scheduler_id HAVING max(coalesce(total_steps, 0)) = 0 AND min(step) = 0"
        " AND max(step) >= (SELECT max(step) FROM steps WHERE completed) AND count(DISTINCT step) >= $least"
        " AND any_value(scheduler) NOT LIKE '%Plateau%'",
        {"least": _LEAST},
    )
    if found.is_empty():
        return []
    try:
        source = ((script.folder or Path()) / script.target).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    idle = _idle_at_an_end(again) if _steps_no_scheduler(source) else set()
    names = dict.fromkeys(row for row in found["scheduler"].to_list() if row in idle or stepped_nowhere(source, row))
    steps = plural(int(found["steps"].max() or 0), "step")  # pyright: ignore[reportArgumentType] — a count
    return [
        (
            "learning rate",
            "scheduler never stepped",
            "doubtful",
            say(
                "{scheduler} is never stepped: {steps} did not, and the script calls its step() nowhere. Call scheduler.step()"
                " after optimizer.step(), or at the end of each epoch.",
                scheduler=name,
                steps=steps,
            ),
        )
        for name in names
    ]


def _idle_at_an_end(again: Path | None) -> set[str]:
    """Classes of schedulers that no step and no end of an epoch has stepped, however they are held."""
    if again is None or not (again / RUN_JSON).exists():
        return set()
    with Trace(again) as trace:
        ended = trace.sql(
            "SELECT count(DISTINCT epoch) AS n FROM batches WHERE rank = 0 AND phase = 'data' AND loader_id IS NOT NULL"
            " GROUP BY loader_id ORDER BY n DESC LIMIT 1"
        )
        if ended.is_empty() or ended.item() < 2:
            return set()
        rows = trace.sql(
            "SELECT scheduler FROM schedulers WHERE rank = 0 GROUP BY scheduler HAVING max(coalesce(total_steps, 0)) = 0"
        )
        return set(rows["scheduler"].to_list())


def _steps_no_scheduler(source: str) -> bool:
    """Whether everything that a source steps is an optimizer, or another thing, by its name."""
    tree = parsed(source)
    if tree is None:
        return False
    stepped = [last_name(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "step"]
    return bool(stepped) and all(name is not None and OTHERS_STEP.search(name) for name in stepped)


def stepped_nowhere(source: str, scheduler: str) -> bool:
    """Whether a source makes schedulers of this class, steps none of them, and hands none of them over."""
    tree = None if "locals()" in source or "vars(" in source else parsed(source)
    if tree is None:
        return False
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    made = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and last_name(n.func) == scheduler]
    names = {_bound(call, parents) for call in made}
    if not names or None in names:
        return False
    uses = [n for n in ast.walk(tree) if last_name(n) in names and isinstance(getattr(n, "ctx", None), ast.Load)]
    return all(isinstance(up := parents[n], ast.Attribute) and up.attr in _LOOKS for n in uses)


def parsed(source: str) -> ast.Module | None:
    """A source as a tree; None where it is no Python, or very large."""
    try:
        return ast.parse(source) if len(source) <= _LARGEST else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def last_name(node: ast.AST) -> str | None:
    """The last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _bound(call: ast.Call, parents: dict[ast.AST, ast.AST]) -> str | None:
    """The one variable, or attribute of an object whose class stands here alone, that a call is bound to."""
    node = parents[call]
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    target = node.targets[0]
    if isinstance(target, ast.Attribute) and any(c.bases for c in _around(node, parents)):
        return None  # a base class may step it
    return last_name(target)


def _around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> list[ast.ClassDef]:
    found: list[ast.ClassDef] = []
    up: ast.AST | None = node
    while up is not None:
        if isinstance(up, ast.ClassDef):
            found.append(up)
        up = parents.get(up)
    return found
