"""The verdict: the stable contract of ``firstfault diagnose --json``, and all that a report may say about a run.

``confidence`` is the rule's measured precision in blind trainings, ``confidence_cases`` the number of trainings in
which it was a cause there; null and 0 where it never was.
"""

from typing import Any, Literal

import msgspec

VERDICT_VERSION = 1

Status = Literal["completed", "exception", "signal", "oom", "hang", "host-lost", "running", "unknown"]
Conclusion = Literal["healthy", "anomalous", "inconclusive"]


class RunFacts(msgspec.Struct, kw_only=True):
    """Which run was judged and how far its recording reaches."""

    run_id: str
    path: str
    status: Status
    exit: dict[str, Any]
    world_size: int
    steps_recorded: int
    last_durable_step: int | None
    profiled_ns: int | None = None
    """Time that an imported profile covers, of the rank with the longest one; null without one."""
    imported: bool = False
    """Whether others wrote the files that were judged."""
    dumped_ranks: int = 0
    """Ranks of which there is a dump of the Flight Recorder."""


class FirstAnomaly(msgspec.Struct, kw_only=True):
    """The first thing that was wrong; ``step_lower``/``step_upper`` bound the truth where recording was sampled."""

    step: int
    step_lower: int
    step_upper: int
    microbatch: int | None
    rank: int
    phase: str
    module: str | None
    tensor: str | None
    signal: str
    value: float | None


class Candidate(msgspec.Struct, kw_only=True):
    """What may be behind a cause that nothing has evidence for: what speaks for it, what against it, what would tell."""

    name: str
    for_: str = msgspec.field(name="for")
    against: str
    tell_apart: str


class Finding(msgspec.Struct, kw_only=True):
    """One rule that fired: a cause, or a symptom when ``explained_by`` names the finding that brought it about.

    ``step_lower`` is the first step at which it can have begun: ``step`` itself, unless what the rule looks at was measured only
    now and then. Both are null of what holds for a whole profile in which no step is marked.
    """

    code: str
    name: str
    severity: Literal["fatal", "error", "warning"]
    confidence: float | None
    confidence_cases: int
    step: int | None
    step_lower: int | None
    rank: int
    microbatch: int | None
    seq: int | None
    phase: str
    module: str | None
    tensor: str | None
    signal: str
    value: float | None
    message: str
    fix: str
    evidence: list[dict[str, Any]]
    sql: str
    explains: list[str]
    explained_by: str | None = None
    proof: Literal["confirmed", "refuted"] | None = None
    """What `firstfault prove` found when it tried the fix; null where nobody tried."""
    candidates: list[Candidate] = []
    """Only of a cause that is unexplained: the likeliest first, at most three."""


class NotEvaluable(msgspec.Struct, kw_only=True):
    """A rule that could not be judged, and why."""

    code: str
    name: str
    why: str


class Change(msgspec.Struct, frozen=True):
    """A threshold that is not the rule's own, or a rule that is switched off (``parameter`` empty)."""

    rule: str
    parameter: str
    value: float | int | str | None
    default: float | int | str | None
    file: str


class Verdict(msgspec.Struct, kw_only=True):
    """What ``diagnose --json`` prints. causes are ordered, best first."""

    schema_version: int = VERDICT_VERSION
    run: RunFacts
    verdict: Conclusion
    first_anomaly: FirstAnomaly | None
    causes: list[Finding]
    symptoms: list[Finding]
    not_evaluable: list[NotEvaluable]
    changes: list[Change] = []
    """Thresholds that firstfault.toml changed, and rules that it switched off."""
