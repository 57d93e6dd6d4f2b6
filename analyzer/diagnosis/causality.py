"""Which finding brought about which: causes and symptoms.

Procedure. A finding A accounts for a finding B when
1. B's name is among the names that A's rule explains (declared in the rule's header; the relation has no circles), and
2. A lies not later than B: A.step_lower <= B.step + slack, where slack is B's own tolerance for being dated a little early
   (a divergence is seen from its foot, an overflow from its first Inf), and
3. A lies not too far back: A.step >= B.step_lower - reach, where reach is B's (a spike is brought about by what happened a
   few steps ago, a divergence may take longer; null means that distance does not matter).
Where recording was sampled a finding has begun somewhere between step_lower and step; A may account for B if it does so at
any of these. Otherwise the two are one number.
Of several that account for B the chosen one is the nearest that is itself unexplained, so that a chain
outlier-batch -> loss-spike -> non-finite is shown under its root. What nothing accounts for is a cause. Causes are
ordered by severity class (warnings last), then time, then generic rules last, then what only makes it slow, then phase, then
code.
The order inside a step is not used for (2): a rule names what it explains by mechanism, and a symptom may be captured
before its cause (an input's field is measured again by the loss).
"""

from dataclasses import dataclass

from ...schemas import Phase
from ..rules.rule import Rule
from ..verdict import Finding

UNEXPLAINED = {"unexplained-nonfinite": "nonfinite-tensor", "unexplained-jump": "unexplained-jump"}
"""Name of what nothing accounts for → the symptom that it stands for: whatever explains the symptom explains it, and then it
is left out."""

PHASES = [p.name.lower() for p in Phase]


@dataclass(slots=True)
class Fired:
    """A finding with the rule that made it, its own reach and its own slack."""

    finding: Finding
    rule: Rule
    reach: int | None
    slack: int


def accounts_for(a: Fired, b: Fired) -> bool:
    """Whether A explains B, by the procedure above."""
    names = a.rule.header.explains
    if b.finding.name not in names and UNEXPLAINED.get(b.finding.name) not in names:
        return False
    if a.finding.step_lower is None or b.finding.step_lower is None:
        return True  # what holds for a whole profile holds wherever it looked
    if a.finding.step_lower > step_of(b.finding) + b.slack:
        return False
    return b.reach is None or step_of(a.finding) >= b.finding.step_lower - b.reach


def step_of(finding: Finding) -> int:
    """Where a finding stands among others: what holds for a whole profile stands before all steps."""
    return -1 if finding.step is None else finding.step


def separate_causes(fired: list[Fired]) -> tuple[list[Finding], list[Finding]]:
    """Causes, best first, and symptoms in order of time with ``explained_by`` filled."""
    roots: dict[str, str | None] = {}
    for b in fired:
        above = [a for a in fired if a is not b and accounts_for(a, b)]
        chosen = min(above, key=lambda a: (_is_explained(a, fired), *_order(a)), default=None)
        roots[b.finding.name] = chosen.finding.name if chosen else None
    causes = [f for f in fired if roots[f.finding.name] is None]
    symptoms = [f for f in fired if roots[f.finding.name] is not None and f.finding.name not in UNEXPLAINED]
    for f in symptoms:
        f.finding.explained_by = roots[f.finding.name]
    _promote_warnings_that_explain_errors(fired, roots)
    return [f.finding for f in sorted(causes, key=_order)], [f.finding for f in sorted(symptoms, key=_order)]


def _promote_warnings_that_explain_errors(fired: list[Fired], roots: dict[str, str | None]) -> None:
    """A warning that accounts, through others or not, for an error has turned out to be one; not where it tames it."""
    named = {f.finding.name: f for f in fired}
    for f in fired:
        top = f
        while (above := roots[top.finding.name]) is not None:
            top = named[above]
        tamed = f.finding.name in top.rule.header.tames
        if f.finding.severity != "warning" and top.finding.severity == "warning" and not tamed:
            top.finding.severity = "error"


def _is_explained(b: Fired, fired: list[Fired]) -> bool:
    return any(a is not b and accounts_for(a, b) for a in fired)


def _order(f: Fired) -> tuple[bool, int, bool, bool, int, str]:
    """Of two at one step, what makes the training wrong comes before what makes it slow."""
    finding = f.finding
    phase = PHASES.index(finding.phase) if finding.phase in PHASES else len(PHASES)
    return (
        finding.severity == "warning",
        step_of(finding),
        f.rule.header.generic,
        f.rule.layer == "performance",
        phase,
        finding.code,
    )
