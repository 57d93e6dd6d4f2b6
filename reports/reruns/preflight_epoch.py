"""What the end of an epoch shows, which a preflight rehearses in its second start: evaluation, checkpoint, the next pass."""

from pathlib import Path

from ...analyzer import Trace, Verdict, diagnose, rules_for
from ...schemas.files.layout import RUN_JSON
from ..text.language import say
from .preflight_early import too_early
from .preflight_facts import Fact, asked
from .rerun_script import Script

_OF_A_REHEARSAL = frozenset({"stale-metric", "no-checkpoint", "step-gap-or-duplicate", "python-exception"})
"""Rules that judge what a rehearsal makes so: it saves elsewhere, ends a pass early, and has its own word on exceptions."""

_ASKED_HERE = {"RE010": "determinism"}
"""Advice that the ends of two epochs give: a random state that returns; and its area."""


def epoch_end(again: Path, first: Verdict, since: int, script: Script) -> list[Fact]:
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
            if f.name not in known
            and f.name not in _OF_A_REHEARSAL
            and f.severity == "error"
            # a script that counts steps takes the next pass over its data as if nothing had ended
            and (f.name not in _OF_AN_END or evaluated or saved)
            and not too_early(trace, script, f)
        ]
        facts += [
            (_ASKED_HERE.get(f.code, "data"), f.name, "doubtful", f"{f.code} {f.name}: {f.message} {f.fix}")
            for f in verdict.causes
            if f.name not in known and (asked(f) or f.code in _ASKED_HERE)
        ]
        if not facts and not broken:
            words = (
                say("The end of an epoch was rehearsed after {steps} steps: no rule found a fault.", steps=since)
                if ended > 1 or evaluated
                else say("The second start went on until its first checkpoint was saved: no rule found a fault.")
            )
            facts.append(("verdict", name, "passed", words))
        return [*facts, *broken, *_once_a_pass(trace, since), *_kept(trace), *_sizes(trace)]


_OF_AN_END = {"scheduler-never-stepped"}
"""What tells of the end of an epoch as the script sees it."""

_FEWEST_BATCHES = 20
"""Batches of a pass from which it is no chance that they divide the length of a schedule: one in twenty."""

_MOST_EPOCHS = 1000
"""Steps of a schedule beyond which they are hardly epochs. OneCycleLR is made for batches (its documentation)."""


def _once_a_pass(trace: Trace, since: int) -> list[Fact]:
    """Schedules whose length is a number of passes in batches, and that the script steps once at the end of a pass."""
    found = trace.sql(
        "WITH passes AS (SELECT max(loader_batches) AS n FROM batches WHERE phase <> 'eval' AND loader_batches IS NOT NULL),"
        " ends AS (SELECT any_value(scheduler) AS scheduler, min(step) AS first, max(total_steps) AS times,"
        " max(coalesce(json_extract(settings, '$.total_steps'), json_extract(settings, '$.T_max'),"
        " json_extract(settings, '$.total_iters'), json_extract(settings, '$.planned'))::BIGINT) AS length"
        " FROM schedulers WHERE json_valid(settings) GROUP BY rank, scheduler_id)"
        " SELECT DISTINCT scheduler, length, n FROM ends, passes WHERE times BETWEEN 1 AND 2"
        " AND n >= $fewest AND length % n = 0 AND (length >= $most OR scheduler LIKE '%OneCycleLR')"
        " AND (SELECT max(step) FROM steps) >= $since",
        {"fewest": _FEWEST_BATCHES, "most": _MOST_EPOCHS, "since": since},
    )
    return [
        (
            "learning rate",
            "schedule",
            "doubtful",
            say(
                "{scheduler} is made for {length} steps, which are {passes} passes of {batches} batches, but it is stepped once"
                " after a pass: call scheduler.step() after each optimizer.step().",
                **row,
                passes=row["length"] // row["batches"],
            ),
        )
        for row in found.rename({"n": "batches"}).rows(named=True)
    ]


_MANY = 2
"""Times the samples of a training that an evaluation has at least where it has too many. Convention: splits are the other way."""


def _sizes(trace: Trace) -> list[Fact]:
    """An evaluation by a loader that has far more samples than the one that trains."""
    row = trace.sql(
        "WITH loaders AS (SELECT loader_id, bool_and(phase = 'eval') AS evaluates, bool_or(phase <> 'eval') AS trains,"
        " max(loader_batches) * max(batch_size) AS samples FROM batches"
        " WHERE rank = 0 AND loader_id IS NOT NULL AND loader_batches IS NOT NULL AND role = 'input' GROUP BY loader_id)"
        " SELECT max(samples) FILTER (evaluates) AS evaluated, max(samples) FILTER (trains) AS trained FROM loaders"
    ).row(0, named=True)
    if not row["trained"] or not row["evaluated"] or row["evaluated"] < _MANY * row["trained"]:
        return []
    words = say(
        "The evaluation goes through {evaluated} samples, and the training through {trained}: were counts of samples and of"
        " batches mixed up in the split?",
        **row,
    )
    return [("data", "sizes", "doubtful", words)]


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
