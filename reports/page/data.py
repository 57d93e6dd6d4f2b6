"""All that one page shows, as plain data: the only thing that rendering sees, and what tests look at."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from ... import __version__
from ...analyzer import Trace
from ...analyzer.verdict import NotEvaluable, Verdict
from ...analyzer.word_patterns import in_words
from ...schemas import captures_of
from ..panels import Panel, reduce_panels
from ..sections.capture_view import CaptureView, reduce_captures
from ..sections.curves import Curve, group_frame, loss_frame, reduce_curves, step_frame
from ..sections.ending import Ending, reduce_ending
from ..sections.findings import FindingView, Headline, reduce_findings, reduce_headline
from ..sections.module_health import HealthMap, reduce_health
from ..sections.module_heatmap import HeatMaps, reduce_heat
from ..sections.playbook import playbook, rule_words
from ..sections.step_player import Replay, reduce_replay
from ..sections.tables import (
    reduce_modules,
    reduce_ranks,
    reduce_run_facts,
    reduce_settings,
    reduce_steps_before,
    reduce_tensors,
)
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import change_in_words, show_name


@dataclass(frozen=True, slots=True)
class PageData:
    """One report. ``around`` is the step that the page turns round: the first bad one, None in a run without one."""

    version: str
    run_name: str
    rank: int
    around: int | None
    headline: Headline
    ending: Ending
    steps_before: Grid | None
    curves: list[Curve]
    health: list[HealthMap]
    replay: Replay | None
    heat: HeatMaps | None
    panels: list[Panel]
    causes: list[FindingView]
    other_findings: list[FindingView]
    captures: list[CaptureView]
    not_evaluable: list[NotEvaluable]
    changes: list[str]
    problems: list[str]
    modules: Grid | None
    modules_hidden: int
    tensors: Grid | None
    run_facts: list[tuple[str, str]]
    settings: list[tuple[str, str]]
    ranks: Grid | None
    left_out: list[str] = field(default_factory=list)
    """What a page that is to be shared does not show."""


def reduce_page(trace: Trace, verdict: Verdict) -> PageData:
    """Reduce a trace and its verdict. Reads only; the size of the result does not depend on the length of the run."""
    cause = verdict.causes[0] if verdict.causes else None
    anomaly = verdict.first_anomaly
    rank = cause.rank if cause is not None else anomaly.rank if anomaly is not None else 0
    around = anomaly.step if anomaly is not None else cause.step if cause is not None else None
    suspect = cause.module if cause is not None else anomaly.module if anomaly is not None else None
    steps = step_frame(trace, rank)
    last_step = int(steps["step"][-1]) if steps.height else around
    causes, other_findings = reduce_findings(verdict)
    replay = reduce_replay(trace, rank, around, last_step, suspect)
    shown = (replay.steps[0], replay.steps[-1]) if replay is not None else None
    captures, run = captures_of(trace.path), Path(trace.path)
    causes = [
        replace(view, playbook=playbook(cause, run, captures, shown), rule=rule_words(cause))
        for view, cause in zip(causes, verdict.causes, strict=True)
    ]
    heat = reduce_heat(trace, rank, around, suspect)
    modules, modules_hidden = reduce_modules(trace, rank, heat)
    return PageData(
        version=__version__,
        run_name=show_name(Path(trace.path).resolve().name),
        rank=rank,
        around=around,
        headline=reduce_headline(verdict),
        ending=reduce_ending(trace),
        steps_before=reduce_steps_before(steps, around),
        curves=reduce_curves(steps, loss_frame(trace, rank), group_frame(trace, rank), around),
        health=reduce_health(trace, rank, around, last_step, suspect),
        replay=replay,
        heat=heat,
        panels=reduce_panels(trace, rank, around, suspect),
        causes=causes,
        other_findings=other_findings,
        captures=reduce_captures(trace),
        not_evaluable=[structs.replace(n, why=n.why.replace(f"{run}/", "")) for n in verdict.not_evaluable],
        changes=[change_in_words(c) for c in verdict.changes],
        problems=[_problem(p.path.removeprefix(f"{run}/"), p.what, p.rows_lost) for p in trace.problems],
        modules=modules,
        modules_hidden=modules_hidden,
        tensors=reduce_tensors(trace, rank),
        run_facts=reduce_run_facts(trace),
        settings=reduce_settings({"config": trace.manifest.config, "recording": trace.manifest.options}),
        ranks=reduce_ranks(trace),
    )


def _problem(path: str, what: str, rows_lost: int | None) -> str:
    lost = "" if rows_lost is None else say(" ({rows_lost} rows lost)", rows_lost=rows_lost)
    return f"{show_name(path)}: {show_name(in_words('problem', what))}{lost}"
