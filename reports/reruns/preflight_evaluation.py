"""Whether the script's own evaluation sees what its training learns, which a preflight tries in a start of its own: the first
batch is learnt by heart, and the evaluation is given that batch before and after."""

import json
from pathlib import Path
from typing import Any

from ...analyzer import Trace
from ...schemas.files.layout import RUN_JSON
from ...schemas.files.probe_report import ProbePlan
from ..text.language import say
from .preflight_facts import Fact
from .rerun_script import Script, finish, record

TIMES = 80
"""Steps on the batch. Convention: of this project; twice what most small models need to learn one batch."""

FEWEST_TIMES = 24
"""Steps on the batch that have to fit into the time."""

MOST_SECONDS = 10.0
"""Seconds for them."""

_LEARNT = 0.6
"""Share of its first loss below which enough of a batch is learnt to tell whether the evaluation follows. Convention: of this
project; an absolute error falls slowly."""

_FOLLOWS = 0.5
"""Share of the training's relative fall that the evaluation's loss shows at least on the same batch: a root or an absolute error
falls less than a square, and dropout is gone."""

_NAME = "evaluation"


def has_an_evaluation(trace: Trace) -> bool:
    """Whether the script reads a loss in its evaluations, by the run that saw the end of an epoch."""
    return bool(trace.sql(f"SELECT count(*) AS n FROM ({_READ})").item())


_READ = "SELECT name, step, value FROM metrics WHERE name LIKE 'evaluation loss (%' AND isfinite(value)"


def evaluation(script: Script, folder: Path, times: int, seconds: float, patience: float) -> list[Fact]:
    """Start the script with its first batch alone, ``times`` or for ``seconds``, and hold its evaluation's loss against the
    training's."""
    run = folder / "batch-learnt"
    own = folder / "batch-learnt-plan"
    values = {"own": str(folder), "times": times}
    plan = ProbePlan(folder=str(own), intervention="batch-learnt", step=0, values=values)
    finish(record(script, run, steps=times + 2, seconds=seconds, plan=plan, again=True), seconds, patience)
    return judged(run, folder)


def judged(run: Path, folder: Path) -> list[Fact]:
    """What a run says whose training had one batch. Empty where it says nothing."""
    try:
        told: dict[str, int] = json.loads((folder / "evaluations.json").read_text())
    except (OSError, ValueError):
        return []
    if not (run / RUN_JSON).exists() or not told.get("given") or told.get("unlike"):
        return []
    with Trace(run) as trace:
        found = _compared(trace)
    if found is None:
        return []
    trained, evaluated = found["trained"], found["evaluated"]
    values = {**found, "first": trained[0], "last": trained[1], "before": evaluated[0], "after": evaluated[1]}
    if _fall(*evaluated) < _FOLLOWS * _fall(*trained):
        words = say(
            "The training has learnt its first batch by heart (its loss fell from {first} to {last} in {steps} steps), but on the"
            " same batch the loss that {place} reads in the script's evaluation went from {before} to {after}. Does the evaluation"
            " compare the same things, in the same units, and prepare its input as the training does?",
            **values,
        )
        return [("learning", _NAME, "doubtful", words)]
    words = say(
        "On the first batch, learnt by heart, the evaluation's own loss fell from {before} to {after} ({place}), the training's"
        " from {first} to {last}.",
        **values,
    )
    return [("learning", _NAME, "passed", words)]


def _fall(before: float, after: float) -> float:
    return (before - after) / before


def _compared(trace: Trace) -> dict[str, Any] | None:
    """Losses of the training and of its evaluation at first and at last; None where they cannot be held against each other."""
    losses = [
        float(loss)
        for (loss,) in trace.sql("SELECT loss FROM steps WHERE rank = 0 AND loss IS NOT NULL ORDER BY step").rows()
    ]
    if len(losses) < FEWEST_TIMES or not 0 < losses[-1] <= _LEARNT * losses[0] or _evaluates_another(trace):
        return None
    rows = trace.sql(
        f"SELECT name, arg_min(value, step) AS before, arg_max(value, step) AS after, min(step) AS first, max(step) AS last"
        f" FROM ({_READ}) GROUP BY name HAVING first < 4 AND last >= $least AND before > 0 ORDER BY before - after LIMIT 1",
        {"least": len(losses) // 2},
    ).rows(named=True)
    if not rows:
        return None
    row = rows[0]
    place = row["name"].removeprefix("evaluation loss (").removesuffix(")")
    return {
        "steps": len(losses),
        "place": place,
        "trained": (losses[0], losses[-1]),
        "evaluated": (row["before"], row["after"]),
    }


def _evaluates_another(trace: Trace) -> bool:
    """Whether what is evaluated is no model that is trained: an average of its weights follows later."""
    return bool(
        trace.sql(
            "WITH used AS (SELECT DISTINCT m.model, s.phase = 'eval' AS evaluated FROM tensor_stats s"
            " JOIN tensors t USING (rank, tensor_id) JOIN modules m USING (rank, module_id)"
            " WHERE s.phase IN ('eval', 'forward') AND t.kind = 'activation')"
            " SELECT count(*) AS n FROM used WHERE evaluated"
            " AND model NOT IN (SELECT model FROM used WHERE NOT evaluated)"
        ).item()
    )
