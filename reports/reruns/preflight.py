"""`firstfault preflight`: a script's first steps recorded and judged, then probed; is it worth starting tonight?"""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...analyzer import Trace, Verdict, diagnose, rules_for
from ...analyzer.verdict import Finding
from ...schemas.files.probe_report import Picture, ProbePlan, ProbeReport, ProbeResult, read_report
from ...schemas.files.rehearsed import not_saved_otherwise, read_asked
from ..text.language import say
from ..text.wording import plural
from .preflight_early import too_early
from .preflight_epoch import epoch_end
from .preflight_evaluation import FEWEST_TIMES, MOST_SECONDS, TIMES, evaluation
from .preflight_facts import Fact, cost, data, determinism, rate_in_use, resume
from .preflight_frozen import frozen_as_drawn
from .preflight_goes_on import Saved, looked_for, saved_at, went_on
from .preflight_rates import decays_by_hand
from .preflight_resume import resumed, state_kept
from .preflight_schedules import never_stepped
from .preflight_script_end import SECONDS, goes_over_a_loader, script_end
from .probe_words import probe_sentence
from .rerun_script import Script, finish, probe, record, recorded
from .resume_option import as_guessed, reads_checkpoints, resume_option

AREAS = (
    "verdict",
    "data",
    "tokenizer",
    "dependence",
    "gradients",
    "learning",
    "learning rate",
    "determinism",
    "resume",
    "cost",
)
"""What is answered, in this order; ten lines on a terminal."""

_ASKED = {"MO004", "RE010"}
"""Advice on a run under way that is worth an answer before a long one: a part of the model that never gets a gradient, a random
state that returns."""
AREA_OF = {
    "repeatable": "determinism",
    "precision": "cost",
    "run-length": "cost",
    "dependence-sample": "dependence",
    "dependence-future": "dependence",
    "dependence-target": "dependence",
    "dependence-input": "dependence",
    "dependence-graph": "dependence",
    "dependence-fields": "dependence",
    "dependence-batch": "dependence",
    "dependence-layers": "dependence",
    "signal": "data",
    "sample-again": "data",
    "flips-apart": "data",
    "samples-beyond": "data",
    "sets-apart": "data",
    "graph-edges": "data",
    "targets-aligned": "data",
    "targets-moved": "data",
    "targets-in-scale": "data",
    "gradients": "gradients",
    "gradcheck": "gradients",
    "loss-terms": "gradients",
    "can-learn": "learning",
    "lr-range": "learning rate",
    "schedule": "learning rate",
    "tokenizer": "tokenizer",
    "tokenizer-round-trip": "tokenizer",
    "tokenizer-padding": "tokenizer",
    "tokenizer-special": "tokenizer",
    "tokenizer-end": "tokenizer",
    "pad-is-eos": "tokenizer",
    "vocabulary": "tokenizer",
}
PROBES = (
    "sample-again",
    "flips-apart",
    "samples-beyond",
    "sets-apart",
    "gradcheck",
    "run-length",
    "schedule",
    "tokenizer",
    "repeatable",
    "dependence-sample",
    "dependence-future",
    "dependence-target",
    "loss-terms",
    "dependence-input",
    "dependence-fields",
    "dependence-batch",
    "dependence-layers",
    "targets-moved",
    "targets-in-scale",
    "graph-edges",
    "targets-aligned",
    "signal",
    "can-learn",
    "lr-range",
    "dependence-graph",
    "gradients",
    "precision",
)
"""In this order, so that what matters most is tried where there is little time."""

EXIT_CODES = {"go": 0, "stop": 1, "doubtful": 3}
_RANK = {"untried": 0, "passed": 1, "doubtful": 2, "failed": 3}
_SECOND_START_STEPS = 6
"""Steps of the second start: seeds, data order and the first updates show themselves in a few."""
_SECOND_START_S = 6.0
"""Seconds that these steps may take; at least half of them are made."""
_REHEARSED = Path("epoch-end") / "checkpoints"
"""Where checkpoints of the rehearsed epoch wait for a start from them."""

_STEPS_AFTER = 8
"""Its steps from there on where the ends of two epochs are rehearsed: the last batch, four more, and three. Rules that look for
steps in a row ask for three."""
_STEPS_RESUMED = 5
"""Steps of a start from a checkpoint."""


_TOTAL = 1.2
"""Times ``seconds`` that a preflight is to take, 72 of 60: with starts and ends that take longer than told it stays below 90."""
_LEAST = 0.15
"""Of ``seconds`` that a start's steps get where reading the data has taken the time: fewer show nothing."""
_ENDING_S = 30.0
"""Seconds that a script may take for its end, beyond its time."""
_LEAST_OF_END = 3.0
"""Seconds from which the rest of the script is rehearsed."""
_FEWEST_TRIALS = 3
"""Steps that have to fit into a start's time: one probe takes three, as it was, changed, and as it was again."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what came of it, in words, and points to draw."""

    area: str
    name: str
    outcome: str
    words: str
    curve: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    values: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Preflight:
    """Everything that one preflight found."""

    script: str
    run: Path
    steps: int
    seconds: float
    checks: list[Check]
    verdict: Verdict
    first_batch: list[Picture]

    @property
    def answer(self) -> str:
        """go, doubtful or stop: the worst of all checks."""
        worst = max((_RANK[c.outcome] for c in self.checks), default=0)
        return {3: "stop", 2: "doubtful"}.get(worst, "go")

    def of(self, area: str) -> list[Check]:
        """The checks of an area, the worst first."""
        return sorted((c for c in self.checks if c.area == area), key=lambda c: -_RANK[c.outcome])

    def outcome(self, area: str) -> str:
        """The worst outcome in an area."""
        return max((c.outcome for c in self.checks if c.area == area), key=lambda o: _RANK[o], default="untried")


def preflight(
    script: Script,
    folder: Path,
    *,
    steps: int,
    seconds: float,
    total_steps: int | None = None,
    resume_args: tuple[str, ...] | None = None,
    tokenizer: Path | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> Preflight:
    """Run the script, judge it, probe it. Raises ReportError where it cannot be started."""
    began = time.monotonic()
    guessed = resume_option(script) if resume_args is None else None
    resume_args = guessed or resume_args
    run, again = folder / "run", folder / "second-start"
    told(say("The script's first steps …"))
    finish(record(script, run, steps=steps, seconds=seconds), seconds)
    recorded(run)
    told(say("The same start again, and probes in its loop …"))
    with Trace(run) as trace:
        trained = _steps(trace)
        saved = Saved.of(trace, script.folder)
        second = probing = None
        clock = _Clock.of(trace, began, seconds, trained)
        compared = min(steps, clock.compared)
        resumes = resume_args is not None
        until_saved = not saved.steps and reads_checkpoints(script)
        later = bool(resumes or saved.steps or until_saved)  # a start from a checkpoint is to come
        values = _known(trace, total_steps, tokenizer) | {"hidden": [] if resumes else sorted(saved.steps)}
        time_of_probes = clock.left(starts=2 + later, steps=compared + _STEPS_AFTER + later * _STEPS_RESUMED)
        plan = ProbePlan(folder=str(folder / "probes"), seconds=time_of_probes, probes=list(PROBES), values=values)
        if trained and time_of_probes:
            probing = probe(script, plan)
        verdict = diagnose(trace, rules_for(run, None))
        if probing is not None:
            finish(probing, time_of_probes, clock.patience)
        if trained and (time_left := clock.left(starts=1 + later, steps=later * _STEPS_RESUMED)):
            keep = {"keep": str(folder / _REHEARSED), "looks": resumes, "hidden": values["hidden"]}
            second = _second_start(script, folder, compared, keep, time_left, until_saved=until_saved)
            finish(second, time_left, clock.patience)
        not_begun = ProbeReport(ended="time" if trained else "no-training")
        report = read_report(Path(plan.folder)) or not_begun
        checks = _verdict_checks(verdict, trained, [f for f in verdict.causes if too_early(trace, script, f)]) + [
            Check(*c) for c in data(trace, verdict)
        ]
        checks += [_of(found) for found in report.results]
        if second is not None:
            checks += [Check(*c) for c in determinism(trace, again, compared, hidden=bool(saved.steps) and not resumes)]
            checks += [Check(*c) for c in epoch_end(again, verdict, compared, script)]
        checks += [Check(*c) for c in _of_the_run(trace, script, again, report, total_steps)]
    if resume_args is not None and trained:
        told(say("A second start from the script's checkpoint …"))
        resuming = Script(script.target, (*script.args, *resume_args), script.module, script.folder)
        facts = _resume(resuming, folder, compared, seconds)
        checks += [Check(*c) for c in (as_guessed(facts, guessed) if guessed else facts)]
    else:
        checks += [
            Check(*c)
            for c in (_goes_on(script, folder, saved, trained - 1, clock) if second is not None else _not_resumed())
        ]
    if second is not None:
        learns = any(c.name == "can-learn" and c.outcome == "passed" for c in checks)
        facts = _evaluation(script, folder, clock, told) if learns else []
        checks += [Check(*c) for c in (*facts, *_script_end(script, folder, compared, verdict, clock, told))]
    checks += [_missing(area, report) for area in AREAS if all(c.area != area for c in checks)]
    return Preflight(script.name, run, trained, time.monotonic() - began, checks, verdict, report.first_batch)


def _second_start(
    script: Script, folder: Path, compared: int, keep: dict[str, Any], seconds: float, *, until_saved: bool
) -> subprocess.Popen[bytes]:
    """The same start again, with the end of an epoch rehearsed after so many steps."""
    plan = ProbePlan(folder=str(folder / "epoch-end"), intervention="epoch-shortened", step=compared, values=keep)
    steps = compared + _STEPS_AFTER
    again = folder / "second-start"
    return record(script, again, steps=steps, seconds=seconds, plan=plan, again=True, until_saved=until_saved)


def _of_the_run(trace: Trace, script: Script, again: Path, report: ProbeReport, total_steps: int | None) -> list[Fact]:
    """What the recorded steps say of the whole run."""
    read = _length(report)
    length = total_steps or (read.values.get("steps") if read is not None else None)
    facts = [*frozen_as_drawn(trace), *decays_by_hand(trace, length), *rate_in_use(trace)]
    return [*facts, *never_stepped(trace, script, again), *cost(trace, total_steps, read, again)]


def _known(trace: Trace, total_steps: int | None, tokenizer: Path | None) -> dict[str, Any]:
    """What probes are told of the run, from its user and from its first steps."""
    values: dict[str, Any] = {"tokenizer": str(tokenizer)} if tokenizer else {}
    share = _scheduler_share(trace)
    if total_steps:
        values["total_steps"] = total_steps
        values["schedule_steps"] = round(total_steps * (share or 1.0))
    # a script that came to its end in so few steps says itself how long its schedules are to be
    values["came_to_its_end"] = _came_to_its_end(trace)
    values["schedule_by_step"] = share == 1.0 and not values["came_to_its_end"]
    return values


def _resume(script: Script, folder: Path, since: int, seconds: float) -> list[Fact]:
    """Start from the script's own checkpoint; where the first steps saved none, from the one of the rehearsed epoch."""
    run, again, rehearsed = folder / "run", folder / "second-start", folder / _REHEARSED
    try:
        if not not_saved_otherwise(rehearsed):
            finish(record(script, run, steps=since, seconds=seconds, resume=True), seconds)
            return resume(run)
        values = {"kept": str(rehearsed)}
        plan = ProbePlan(folder=str(folder / "resumed-plan"), intervention="rehearsed-checkpoints", values=values)
        loaded = folder / "resumed"
        finish(record(script, loaded, steps=_STEPS_RESUMED, seconds=seconds, plan=plan, again=True), seconds)
        since = saved_at(again, recorded(loaded), script.folder) or since
        return [*resumed(again, loaded, since), *state_kept(rehearsed)]
    finally:
        shutil.rmtree(rehearsed, ignore_errors=True)


def _goes_on(script: Script, folder: Path, saved: Saved, last: int, clock: "_Clock") -> list[Fact]:
    """Start a script that has looked for its checkpoint with the one that it saved itself: in its first start, where that made
    steps after it, else at the rehearsed end of an epoch."""
    rehearsed, loaded, again = folder / _REHEARSED, folder / "resumed", folder / "second-start"
    try:
        first, second = looked_for(rehearsed, saved)
        own = first and saved.usable(read_asked(rehearsed), last)
        if not (own or second):
            return _not_resumed()
        seconds = clock.fits(_STEPS_RESUMED + 2)
        if not seconds:
            return [("resume", "resume", "untried", say("not tried: there was no time left; give more --seconds"))]
        values: dict[str, Any] = {} if own else {"kept": str(rehearsed), "hidden": sorted(saved.steps)}
        plan = ProbePlan(
            folder=str(folder / "resumed-plan"), intervention="epoch-shortened", step=_STEPS_RESUMED, values=values
        )
        start = record(script, loaded, steps=_STEPS_RESUMED + 2, seconds=seconds, plan=plan, again=True)
        finish(start, seconds, clock.patience)
        before = folder / "run" if own else again
        return went_on(before, again, loaded, None if own else rehearsed, script.folder) or _not_resumed()
    finally:
        shutil.rmtree(rehearsed, ignore_errors=True)


def _evaluation(script: Script, folder: Path, clock: "_Clock", told: Callable[[str], None]) -> list[Fact]:
    """The script's own evaluation of a batch that was learnt by heart, where it has one and there is time for it."""
    seconds = clock.fits(FEWEST_TIMES)
    if not seconds:
        return []
    told(say("The first batch learnt by heart, and evaluated …"))
    times = min(TIMES, int(seconds / max(clock.step, 1e-3)))
    return evaluation(script, folder, times, min(seconds, MOST_SECONDS), clock.patience)


def _script_end(
    script: Script, folder: Path, since: int, verdict: Verdict, clock: "_Clock", told: Callable[[str], None]
) -> list[Fact]:
    """The rest of the script, where there is one and time for it."""
    if not clock.reserved:
        return []
    clock.reserved = 0.0
    seconds = min(clock.fits(since), SECONDS)
    if seconds < _LEAST_OF_END:
        return []
    told(say("The rest of the script, each pass cut short …"))
    return script_end(script, folder, since, verdict, seconds, clock.patience)


def _not_resumed() -> list[Fact]:
    words = say("not tried: give --resume-with the arguments that load the checkpoint")
    return [("resume", "resume", "untried", words)]


@dataclass(slots=True)
class _Clock:
    """What the first start has shown of the script's pace, in seconds: a start without its steps, and one step."""

    began: float
    seconds: float
    start: float
    step: float
    reserved: float
    """For a start that rehearses the rest of the script; 0 where there is to be none."""

    @classmethod
    def of(cls, trace: Trace, began: float, seconds: float, trained: int) -> "_Clock":
        training = _training_seconds(trace)
        start = max(time.monotonic() - began - training, 0.0)
        rehearses = goes_over_a_loader(trace) and not _came_to_its_end(trace)
        return cls(began, seconds, start, training / max(trained, 1), start + SECONDS if rehearses else 0.0)

    def left(self, *, starts: int, steps: int = 0) -> float:
        """Seconds for the steps of the next start, where so many starts and steps are still to come. 0: too few for a trial."""
        rest = self._rest - starts * self.start - steps * self.step
        given = max(_LEAST * self.seconds, min(self.seconds, rest))
        return given if given >= _FEWEST_TRIALS * self.step else 0.0

    def fits(self, steps: int) -> float:
        """Seconds for a start of a few steps more that was not reckoned with. 0: there is no time for it."""
        rest = self._rest - self.start
        return min(rest, self.seconds) if rest > steps * self.step else 0.0

    @property
    def _rest(self) -> float:
        return _TOTAL * self.seconds - (time.monotonic() - self.began) - self.reserved

    @property
    def compared(self) -> int:
        """Steps of the second start that are held against the first start's."""
        fit = int(_SECOND_START_S / self.step) if self.step else _SECOND_START_STEPS
        return max(_SECOND_START_STEPS // 2, min(_SECOND_START_STEPS, fit))

    @property
    def patience(self) -> float:
        """How much longer than its steps a start may take: twice what the first one took, and one step more."""
        return 2 * self.start + self.step + _ENDING_S


def _length(report: ProbeReport) -> ProbeResult | None:
    """What the script's loops say of its length."""
    return next((r for r in report.results if r.code == "run-length"), None)


def _missing(area: str, report: ProbeReport) -> Check:
    if area == "tokenizer":
        return Check(
            area, area, "untried", say("not tried: no tokenizer was seen, or none to compare with; give --tokenizer")
        )
    why = report.ended
    if why.startswith("raised"):
        words = say("not tried: the probed script {how}", how=why)
    elif why == "no-module":
        words = say("not tried: the script trains tensors, not an nn.Module that it calls")
    elif why == "no-loop":
        words = say("not tried: the script's loop steps no optimizer of torch")
    elif why == "time":
        words = say("not tried: there was no time left; give more --seconds")
    else:
        words = say("not tried: the script's loop ended before, or trains in another process")
    return Check(area, area, "untried", words)


def _of(found: ProbeResult) -> Check:
    area = AREA_OF.get(found.probe, "learning")
    return Check(area, found.probe, found.outcome, probe_sentence(found), found.curve, found.values)


def _verdict_checks(verdict: Verdict, trained: int, early: Sequence[Finding]) -> list[Check]:
    """What the rules say of the first steps; of findings that are too ``early`` to tell it is advice."""
    causes = [
        Check("verdict", cause.name, "failed", _in_words(cause))
        for cause in (verdict.causes[:3] if verdict.verdict == "anomalous" else [])
        if cause not in early
    ]
    if not trained:
        words = say("No training step was recorded; the script ended: {how}.", how=verdict.run.status)
        return [*causes, Check("verdict", "verdict", "failed", words)]  # a cause says more in ten lines
    if causes:
        return causes
    advice = [
        Check("verdict", c.name, "doubtful" if c.code in _ASKED else "passed", _in_words(c)) for c in verdict.causes[:3]
    ]
    if verdict.verdict == "inconclusive":
        words = say("{steps}: too little to call it healthy.", steps=plural(trained, "step"))
        return [Check("verdict", "verdict", "doubtful", words), *advice]
    words = say("{steps} recorded, no rule found a fault.", steps=plural(trained, "step"))
    return [Check("verdict", "verdict", "passed", words), *advice]


def _in_words(found: Finding) -> str:
    return f"{found.code} {found.name}: {found.message} {found.fix}"


def _steps(trace: Trace) -> int:
    return int(trace.sql("SELECT count(DISTINCT step) AS n FROM steps WHERE completed").item() or 0)


def _training_seconds(trace: Trace) -> float:
    """How long the recorded steps took; what is left of a start is what every start takes."""
    return float(trace.sql("SELECT sum(step_ns) / 1e9 AS s FROM steps WHERE rank = 0").item() or 0.0)


def _scheduler_share(trace: Trace) -> float:
    """Calls of schedulers for each optimizer step, at most 4."""
    found = trace.sql("SELECT sum(scheduler_steps) / nullif(count(*) FILTER (stepped), 0) AS share FROM steps").item()
    return min(float(found or 0.0), 4.0)


def _came_to_its_end(trace: Trace) -> bool:
    return bool(trace.sql("SELECT bool_or(by_itself) AS e FROM script_ended").item())
