"""Whether the script's own evaluation sees what its training learns, which a preflight tries in a start of its own: the first
batch is learnt by heart, and the evaluation is given that batch before and after."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from ...analyzer import Trace
from ...schemas.files.evaluations_told import EvaluationsTold, read_told
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
"""Share of its first loss below which enough of a batch is learnt to tell whether the evaluation's loss follows. Convention: of
this project; an absolute error falls slowly."""

_BY_HEART = 0.3
"""The same for a score, which a loss that still falls may leave alone."""

_WELL = 0.1
"""The same for a score that is zero: what is found above a threshold comes late."""

_FOLLOWS = 0.5
"""Share of the training's relative fall that the evaluation's loss shows at least on the same batch: a root or an absolute error
falls less than a square, and dropout is gone."""

_AUGMENTED = 2
"""Forwards of one batch in an evaluation: a flipped picture beside the picture."""

_EARLY = 2
"""Steps up to which nothing is learnt yet."""

_NAME = "evaluation"


class _Numbers(NamedTuple):
    """What one line of the script reads in its evaluations, before and after."""

    place: str
    before: float
    after: float


def evaluation(script: Script, folder: Path, times: int, seconds: float, patience: float) -> list[Fact]:
    """Start the script with its first batch alone, ``times`` or for ``seconds``, and hold its evaluation's numbers against the
    training's loss."""
    own, run = folder / "batch-learnt-plan", folder / "batch-learnt"
    values = {"own": str(folder), "times": times}
    plan = ProbePlan(folder=str(own), intervention="batch-learnt", step=0, values=values)
    finish(record(script, run, steps=times + 2, seconds=seconds, plan=plan, again=True), seconds, patience)
    told = read_told(folder)
    return judged(run, told) if told is not None else []


def judged(run: Path, told: EvaluationsTold) -> list[Fact]:
    """What a run says whose training had one batch. Empty where it says nothing."""
    if not told.given or told.unlike or not (run / RUN_JSON).exists():
        return []
    with Trace(run) as trace:
        if _evaluates_another(trace) or _evaluates_more(trace, told.given):
            return []
        rows = trace.sql("SELECT loss FROM steps WHERE rank = 0 AND isfinite(loss) ORDER BY step").rows()
    if len(rows) < FEWEST_TIMES or not 0 < rows[-1][0] <= _LEARNT * rows[0][0]:
        return []
    first, last = float(rows[0][0]), float(rows[-1][0])
    losses = _numbers(told.losses, len(rows)) or _numbers(told.printed_losses, len(rows))
    losses = sorted((n for n in losses if n.before > 0), key=lambda n: _fall(n.before, n.after))
    scores, printed = (_numbers(found, len(rows)) for found in (told.scores, told.printed_scores))
    learnt = {"first": first, "last": last, "steps": len(rows)}
    if losses and _fall(losses[0].before, losses[0].after) < _FOLLOWS * _fall(first, last):
        words = say(
            "The training learnt its first batch by heart: its loss fell from {first} to {last} in {steps} steps. On the same"
            " batch the evaluation's own loss ({place}) went from {before} to {after}. Does the evaluation compare the same"
            " things, in the same units, and prepare its input as the training does?",
            **learnt,
            **losses[0]._asdict(),
        )
        return [("learning", _NAME, "doubtful", words)]
    if last <= _WELL * first and (zero := _zero({**told.scores, **told.printed_scores})) is not None:
        words = say(
            "The training learnt its first batch by heart: its loss fell from {first} to {last} in {steps} steps. On the same"
            " batch the evaluation's score ({place}) was zero. Does it count what it should, in the units of the targets?",
            **learnt,
            place=zero,
        )
        return [("learning", _NAME, "doubtful", words)]
    if last <= _BY_HEART * first and (stuck := _stuck(scores, printed, told.samples)) is not None:
        words = say(
            "The training learnt its first batch by heart: its loss fell from {first} to {last} in {steps} steps. On the same"
            " batch the evaluation's score ({place}) went from {before} to {after}. Does it count what it should, and prepare"
            " its input as the training does?",
            **learnt,
            **stuck._asdict(),
        )
        return [("learning", _NAME, "doubtful", words)]
    for found in (*losses, *scores, *printed):
        words = say(
            "The evaluation follows the training: on the first batch, learnt by heart, its own number ({place}) went from"
            " {before} to {after}.",
            **found._asdict(),
        )
        return [("learning", _NAME, "passed", words)]
    return []


def _zero(scores: Mapping[str, Sequence[tuple[int, float]]]) -> str | None:
    """A score that is zero once the batch was learnt."""
    for place, numbers in scores.items():
        end = max(step for step, _ in numbers)
        if end > _EARLY and not any(number for step, number in numbers if step == end):
            return place
    return None


def _stuck(scores: list[_Numbers], printed: list[_Numbers], samples: int) -> _Numbers | None:
    """A score that does not rise, and is not full. One that is known by its printed name alone must not move at all: what ranks
    unseen items may fall."""
    full = {1.0, 100.0, float(samples)}
    for found in scores:
        if found.after <= found.before and found.after not in full:
            return found
    return next((n for n in printed if n.after == n.before and n.after not in full), None)


def _fall(before: float, after: float) -> float:
    return (before - after) / before


def _numbers(read: Mapping[str, Sequence[tuple[int, float]]], steps: int) -> list[_Numbers]:
    found: list[_Numbers] = []
    for place, numbers in read.items():
        end = max(step for step, _ in numbers)
        early = [number for step, number in numbers if step <= _EARLY]
        late = [number for step, number in numbers if step == end]
        if early and end >= steps // 2:
            found.append(_Numbers(place, fmean(early), fmean(late)))
    return found


def _evaluates_more(trace: Trace, given: int) -> bool:
    """Whether the script evaluates other data as well, which no loader of torch hands out: their numbers are not of the batch."""
    forwards = trace.sql("SELECT sum(eval_forwards) AS n FROM steps WHERE rank = 0").item() or 0
    return int(forwards) > _AUGMENTED * given


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
