"""Reduce the verdict: the headline, and causes with the symptoms that they explain. Plain data, no HTML."""

from dataclasses import dataclass, field
from typing import Any

from ...analyzer.language import close_up
from ...analyzer.rules.texts import values_of
from ...analyzer.verdict import Finding, FirstAnomaly, RunFacts, Verdict
from ..text.grid import _A_NAME, Grid, grid_of
from ..text.language import say
from ..text.wording import duration, number, plural, sentence_case, show_name, show_text, spoken
from .playbook import PlaybookStep, RuleWords

PHASE_WORDS = {
    "data": "loading data",
    "forward": "forward pass",
    "loss": "loss",
    "backward": "backward pass",
    "optimizer": "optimizer step",
    "eval": "evaluation",
    "exit": "end of the run",
}


INSIDE = {"forward", "backward", "eval"}
"""Phases that happen inside modules."""


@dataclass(frozen=True, slots=True)
class FindingView:
    """One cause or symptom in words, with the evidence and the SQL that found it."""

    code: str
    name: str
    title: str
    severity: str
    confidence: str
    where: str
    message: str
    fix: str
    evidence: Grid | None
    sql: str
    symptoms: "list[FindingView]" = field(default_factory=list)
    playbook: list[PlaybookStep] = field(default_factory=list[PlaybookStep])
    rule: RuleWords | None = None


@dataclass(frozen=True, slots=True)
class Headline:
    """The verdict in one sentence, the rule's own explanation, the fix, and the few facts a reader wants first.

    ``cause`` is code and name of the first cause with its confidence, empty without one.
    """

    conclusion: str
    badge: str
    cause: str
    title: str
    message: str
    fix: str
    facts: list[tuple[str, str]]


def reduce_headline(verdict: Verdict) -> Headline:
    """The top of the page, from the first cause; without a cause, from the first anomaly or from what was missing."""
    anomaly = verdict.first_anomaly
    cause = verdict.causes[0] if verdict.causes else None
    steps = plural(verdict.run.steps_recorded, "recorded step")
    badge = say(sentence_case(verdict.verdict))
    facts: list[tuple[str, str]] = []
    if cause is not None:
        since = say("Seen from step") if verdict.verdict == "healthy" else say("First bad step")
        facts += [(since, _step_range(anomaly, cause))] if cause.step is not None else []
        facts.append((say("Where"), place(cause.module, cause.phase)))
    elif anomaly is not None:
        facts += [
            (say("First bad step"), _step_range(anomaly, None)),
            (say("Where"), place(anomaly.module, anomaly.phase)),
        ]
    if anomaly is not None:
        facts.append((say("First sign"), first_sign(anomaly)))
    if verdict.run.world_size > 1 and anomaly is not None:
        facts.append((say("Rank"), say("{rank} of {world_size}", rank=anomaly.rank, world_size=verdict.run.world_size)))
    facts += [(say("Recorded"), plural(verdict.run.steps_recorded, "step")), (say("Run ended"), _ended(verdict.run))]
    if cause is not None:
        advice = verdict.verdict == "healthy"
        words = f"{spoken(cause.name)}{_in(cause.module)}"
        title = (
            say("No fault found in {steps}; advice: {words}", steps=steps, words=words)
            if advice
            else say("Step {step}: {words}", step=cause.step, words=words)
            if verdict.run.steps_recorded and cause.step is not None
            else say("Profile: {words}", words=words)
            if cause.step is None and cause.phase != "exit"
            else sentence_case(words)
        )
        words = f"{cause.code} {cause.name}, {confidence(cause)}"
        return Headline(verdict.verdict, badge, words, title, show_text(cause.message), show_text(cause.fix), facts)
    if anomaly is not None:
        title = say(
            "Step {step}: {signal}{where}, cause unknown",
            step=anomaly.step,
            signal=say(anomaly.signal),
            where=_in(anomaly.module),
        )
        message = say(
            "Something left its band here, and no rule that could be judged explains it. Look at the steps before."
        )
        return Headline(verdict.verdict, badge, "", title, message, "", facts)
    if verdict.verdict == "healthy":
        title = say("No fault found in {steps}", steps=steps)
        message = say("Every rule that could be judged stayed silent.")
        if verdict.not_evaluable:
            message += say(" {rules} could not be judged.", rules=plural(len(verdict.not_evaluable), "rule"))
        return Headline(verdict.verdict, badge, "", title, message, "", facts)
    title = _title_without_verdict(verdict, steps)
    return Headline(verdict.verdict, badge, "", title, _why_inconclusive(verdict), "", facts)


def reduce_findings(verdict: Verdict) -> tuple[list[FindingView], list[FindingView]]:
    """Causes with their symptoms under them, and the symptoms that no cause in the verdict explains."""
    causes = [_view(c) for c in verdict.causes]
    orphans: list[FindingView] = []
    for symptom in verdict.symptoms:
        owner = next((c for c in causes if symptom.explained_by in (c.name, c.code)), None)
        (owner.symptoms if owner else orphans).append(_view(symptom))
    return causes, orphans


def first_sign(anomaly: FirstAnomaly) -> str:
    """The signal, the tensor and the value of the first anomaly, in a line."""
    tensor = say(" of {tensor}", tensor=show_name(anomaly.tensor)) if anomaly.tensor else ""
    value = f" = {number(anomaly.value)}" if anomaly.value is not None else ""
    return say(
        "{signal}{tensor}{value}, step {step}",
        signal=say(anomaly.signal),
        tensor=tensor,
        value=value,
        step=anomaly.step,
    )


def place(module: str | None, phase: str) -> str:
    """Module and phase in words; the phase alone without a module, and where the root says no more than that."""
    words = say(PHASE_WORDS.get(phase, phase))
    outside = module is None or (not module and phase not in INSIDE)
    return words if outside else say("{module}, {phase}", module=show_name(module), phase=words)


def confidence(finding: Finding) -> str:
    """In how many blind trainings a rule was right, of how many in which it gave a cause; or that this has not been measured."""
    if finding.confidence is None:
        return say("precision not measured")
    right = round(finding.confidence * finding.confidence_cases)
    return say("right in {right} of {cases} blind trainings", right=right, cases=finding.confidence_cases)


def _view(finding: Finding) -> FindingView:
    rank = say("rank {rank}, ", rank=finding.rank) if finding.rank else ""
    tensor = say(", tensor {tensor}", tensor=show_name(finding.tensor)) if finding.tensor else ""
    return FindingView(
        code=finding.code,
        name=finding.name,
        title=sentence_case(spoken(finding.name)),
        severity=finding.severity,
        confidence=confidence(finding),
        where=say(
            "{rank}step {step}, {place}{tensor}",
            rank=rank,
            step=finding.step,
            place=place(finding.module, finding.phase),
            tensor=tensor,
        )
        if finding.step is not None
        else say("{rank}the whole profile", rank=rank)
        if finding.phase != "exit"
        else say("{rank}{place}", rank=rank, place=place(finding.module, finding.phase)),
        message=show_text(finding.message),
        fix=show_text(finding.fix),
        evidence=grid_of([_unsaid(row, finding) for row in finding.evidence]),
        sql=finding.sql.strip(),
    )


def _unsaid(row: dict[str, Any], finding: Finding) -> dict[str, Any]:
    """A row without the texts from which the message or the fix was made: they have been read already."""
    said = finding.message + finding.fix
    told = values_of(finding.code, finding.name, row)
    row = {k: close_up(v) if isinstance(v, str) else v for k, v in told.items()}
    return {k: v for k, v in row.items() if not (isinstance(v, str) and len(v) > _A_NAME and v in said)}


def _in(module: str | None) -> str:
    return say(" in {module}", module=show_name(module)) if module else ""


def _step_range(anomaly: FirstAnomaly | None, cause: Finding | None) -> str:
    place = cause or anomaly
    if place is None or place.step_lower == place.step:
        return number(None if place is None else place.step)
    return say("{step} (between {step_lower} and {step})", step=place.step, step_lower=place.step_lower)


def _ended(run: RunFacts) -> str:
    how = run.exit.get("signal_name")
    if how is None and run.exit.get("exit_code") is not None:
        how = say("exit code {exit_code}", exit_code=run.exit["exit_code"])
    if run.status == "completed" and how is None and run.exit.get("note"):
        return say("not told")  # files that others wrote
    words = say(run.status.replace("-", " "))
    return say("{status}, {how}", status=words, how=how) if how else words


def _title_without_verdict(verdict: Verdict, steps: str) -> str:
    """What was looked at and showed nothing; a run that only lacks steps is no verdict at all."""
    run = verdict.run
    if run.profiled_ns is not None:
        span = duration(run.profiled_ns)
        return (
            say("Nothing found in a profile of {span}, {steps}", span=span, steps=steps)
            if run.steps_recorded
            else say("Nothing found in the whole profile of {span}: no step is marked", span=span)
        )
    if run.steps_recorded:
        return say("No verdict: {steps}", steps=steps)
    if run.dumped_ranks:
        return say("Nothing found in the calls of {ranks}", ranks=plural(run.dumped_ranks, "rank"))
    if run.imported:
        return say("Nothing found; no step is marked in these files")
    return say("No verdict: no step was recorded")


def _why_inconclusive(verdict: Verdict) -> str:
    ours_first = sorted(verdict.not_evaluable, key=lambda n: n.name != "recording-incomplete")
    reasons = list(dict.fromkeys(n.why for n in ours_first))
    if verdict.run.profiled_ns is not None:
        return say(
            "Every rule that can judge a profile stayed silent. Whether the training learns cannot be said: a profile holds"
            " neither losses nor tensors."
        )
    told = [n.why for n in verdict.not_evaluable if n.name == "recording-incomplete"]
    if verdict.run.imported and not verdict.run.steps_recorded and told:
        return say("{told}.", told=sentence_case(say("; ").join(told[:3])))
    if not verdict.run.steps_recorded:
        return say(
            "The recording holds no step, so nothing can be said about the training: {reasons}.",
            reasons=reasons[0] if reasons else say("how the run ended is below"),
        )
    return (
        say("Too little could be judged: {reasons}.", reasons=say("; ").join(reasons[:3]))
        if reasons
        else say("Too little could be judged.")
    )
