"""What the end of an epoch shows, which a preflight rehearses in its second start: evaluation, checkpoint, the next pass."""

from pathlib import Path

from ...analyzer import Trace, Verdict, diagnose, rules_for
from ...schemas.files.layout import RUN_JSON
from ..text.language import say
from .preflight_facts import ASKED, Fact

_OF_A_REHEARSAL = frozenset({"stale-metric", "no-checkpoint", "step-gap-or-duplicate", "python-exception"})
"""Rules that judge what a rehearsal makes so: it saves elsewhere, ends a pass early, and has its own word on exceptions."""


def epoch_end(again: Path, first: Verdict, since: int) -> list[Fact]:
    """The second start's steps from ``since`` on, after its pass over the data was ended: what the first start did not show."""
    name = "end of an epoch"
    if not (again / RUN_JSON).exists():
        return []
    with Trace(again) as trace:
        ended, evaluated, saved = trace.sql(
            "SELECT (SELECT count(DISTINCT epoch) FROM batches WHERE phase <> 'eval' AND loader_id IS NOT NULL"
            " AND step >= $since - 1), (SELECT count(*) FROM steps WHERE eval_forwards > 0 AND step >= $since - 1),"
            " (SELECT count(*) FROM checkpoints WHERE action = 'saved')",
            {"since": since},
        ).row(0)
        broken: list[Fact] = []
        error = trace.exit.exception if trace.status == "exception" and trace.exit is not None else None
        if error is not None and error.step is not None and error.step >= since:
            words = say(
                "After the epoch that preflight ended early, the script raised {error}",
                error=f"{error.type}: {error.message}"[:200],
            )
            broken = [("verdict", name, "untried" if "rehearsal" in error.message else "doubtful", words)]
        if ended < 2 and not evaluated and not saved:
            return broken
        known = {f.name for f in [*first.causes, *first.symptoms]}
        verdict = diagnose(trace, rules_for(again, None))
        facts: list[Fact] = [
            (
                "data" if f.code.startswith("DA") else "verdict",
                f.name,
                "failed",
                f"{f.code} {f.name}: {f.message} {f.fix}",
            )
            for f in (verdict.causes if verdict.verdict == "anomalous" else [])
            if f.name not in known and f.name not in _OF_A_REHEARSAL and f.severity == "error"
        ]
        facts += [
            ("data", f.name, "doubtful", f"{f.code} {f.name}: {f.message} {f.fix}")
            for f in verdict.causes
            if f.name not in known and f.code in ASKED
        ]
        if not facts and not broken:
            words = say("The end of an epoch was rehearsed after {steps} steps: no rule found a fault.", steps=since)
            facts.append(("verdict", name, "passed", words))
        return [*facts, *broken, *_kept(trace)]


def _kept(trace: Trace) -> list[Fact]:
    """Whether a checkpoint that keeps a part of the training's state keeps all of it."""
    row = trace.sql(
        "SELECT max(coalesce(optimizer_entries, 0)) AS moments, max(last_epoch) AS schedule,"
        " (SELECT sum(scheduler_steps) FROM steps) AS scheduled,"
        " (SELECT count(*) FROM tensors WHERE kind = 'optimizer_state') AS states"
        " FROM checkpoints WHERE action = 'saved' AND content = 'dict'"
    ).row(0, named=True)
    if row["schedule"] is not None and not row["moments"] and row["states"]:
        words = say(
            "The checkpoint keeps the schedule but not the optimizer's state: a resumed run begins with new moments."
        )
        return [("resume", "checkpoint", "doubtful", words)]
    if row["moments"] and row["schedule"] is None and row["scheduled"]:
        words = say(
            "The checkpoint keeps the optimizer's state but not the schedule's: a resumed run may begin it anew."
        )
        return [("resume", "checkpoint", "doubtful", words)]
    return []
