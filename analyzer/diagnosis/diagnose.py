"""From a trace to a verdict: run every rule, split causes from symptoms, say what could not be judged.

Deterministic to the byte: every list is ordered by its own contents, numbers are rounded to six significant digits, and
nothing depends on the number of threads.
"""

import math
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from ..errors import RuleError
from ..language import say
from ..reading.trace import Trace
from ..rules.filling import fill
from ..rules.precision import precision_of
from ..rules.rule import Rule, Severity, find_rule, load_rules, run_rule, why_not_evaluable
from ..rules.texts import in_words_of, text_of
from ..rules.thresholds import RuleSet
from ..verdict import Conclusion, Finding, FirstAnomaly, NotEvaluable, RunFacts, Verdict
from ..word_patterns import in_words
from .call_words import call_sentences
from .candidates import candidates_for
from .causality import PHASES, Fired, separate_causes, step_of
from .profile_memory_words import profile_memory_sentences
from .proven import with_proof
from .snapshot_words import snapshot_sentences
from .unrecorded import unrecorded

EVIDENCE_ROWS = 5
"""Rows of a rule that a finding carries as evidence; the rest is one `firstfault sql` away."""

FEW_STEPS = 3
"""Below this many recorded steps nothing can be called healthy: there is no history to compare with."""

FEW_STEPS_RUNNING = 8
"""The same for a run that is still being written."""

DETAIL_OF = {
    "activation": "activations",
    "activation_gradient": "activation_gradients",
    "gradient": "gradients",
    "parameter": "parameters",
    "update": "updates",
    "optimizer_state": "optimizer_state",
    "buffer": "buffers",
    "param_groups.update_norm": "updates",
    "param_groups.weight_norm": "updates",
    "probes.scale": "activations",
}
"""Kind of tensor, or column, that a rule needs → the kind in steps.detail that says where it was not measured."""

_ESSENTIAL = {"nonfinite-tensor", "loss-spike", "divergence"}
"""Rules without which silence means nothing, by name: with all of them unable to judge, a run is inconclusive."""


_SIGNS = {"loss", "grad_norm", "clip_norm"}
"""Columns of steps without any of which, and without tensors, nobody can call a run healthy."""


def diagnose(trace: Trace, rules: RuleSet | None = None) -> Verdict:
    """The verdict on a run, by our own rules unless others are given. One of ours whose SELECT fails cannot judge, the others
    do. Raises AnalyzerError (RuleError for a user's own rule whose SELECT fails)."""
    rules = rules or RuleSet(load_rules())
    trace.prepare()
    sampled = bool(
        trace.sql(
            "SELECT bool_or(thinned OR steps <= last - first) AS sampled FROM (SELECT bool_or(left_out <> ['']) AS thinned,"
            " count(*) AS steps, min(step) AS first, max(step) AS last FROM step_detail GROUP BY rank)"
        ).item()
    )
    fired: list[Fired] = []
    silent: list[NotEvaluable] = []
    reasons = {rule.header.code: why_not_evaluable(trace, rule) for rule in rules.rules}
    trace.look_for(
        sought for rule in rules.rules if not reasons[rule.header.code] for wanted in rule.sought for sought in wanted
    )
    for rule in rules.rules:
        if why := reasons[rule.header.code]:
            silent.append(NotEvaluable(code=rule.header.code, name=rule.header.name, why=why))
            continue
        try:
            rows = run_rule(trace, rule)
            found = finding_from_rows(rule, rows) if rows else None
        except RuleError as e:
            if find_rule(rule.header.code) is None:
                raise  # a rule of the user's own: its author wants to know
            why = say(
                "the rule failed on this run, which is a mistake in firstfault; please report it: {error}", error=e
            )
            silent.append(NotEvaluable(code=rule.header.code, name=rule.header.name, why=why))
            continue
        if found is not None:
            if sampled and found.finding.step is not None and found.finding.step_lower is not None:
                found.finding.step_lower = min(found.finding.step_lower, _step_lower(trace, found))
            fired.append(found)
    causes, symptoms = separate_causes(fired)
    causes = with_proof(trace.path, causes)
    for cause in causes:
        cause.candidates = candidates_for(trace, cause)
    facts = _facts(trace)
    silent = _reading_problems(trace, facts, rules) + silent
    conclusion = _conclude(trace, facts, causes, {n.name for n in silent})
    return Verdict(
        run=facts,
        verdict=conclusion,
        first_anomaly=_first_anomaly(causes, symptoms) if conclusion == "anomalous" else None,
        causes=causes,
        symptoms=symptoms,
        not_evaluable=silent,
        changes=list(rules.changes),
    )


def finding_from_rows(rule: Rule, rows: list[dict[str, Any]]) -> Fired:
    """The finding of a rule: its first row, with the rows after it as evidence."""
    header, row = rule.header, rows[0]
    said, told = text_of(header.code, header.name) or header, in_words_of(header, row)
    precision = precision_of(header.name)
    step = None if row["step"] is None else int(row["step"])
    finding = Finding(
        code=header.code,
        name=header.name,
        severity=cast("Severity", row.get("severity") or header.severity),
        confidence=precision.share,
        confidence_cases=precision.cases,
        step=step,
        step_lower=step if row.get("step_lower") is None else int(row["step_lower"]),
        rank=int(row.get("rank") or 0),
        microbatch=row.get("microbatch"),
        seq=row.get("seq"),
        phase=row.get("phase") or header.phase,
        module=row.get("module"),
        tensor=row.get("tensor"),
        signal=row.get("signal") or header.signal,
        value=_number(row.get("value")),
        message=fill(said.message, told).strip(),
        fix=fill(said.fix, told).strip(),
        evidence=[{k: plain(v) for k, v in r.items()} for r in rows[:EVIDENCE_ROWS]],
        sql=rule.sql,
        explains=list(header.explains),
    )
    return Fired(finding, rule, row.get("reach", header.reach), row.get("slack") or header.slack)


def plain(value: Any) -> Any:
    """A value that JSON can hold: six significant digits; NaN and infinities by name."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return _number(value) if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [plain(v) for v in cast("Iterable[Any]", value)]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in cast("dict[Any, Any]", value).items()}
    return str(value)


def _number(value: Any) -> float | None:
    """Six significant digits; None for what is no finite number (JSON has no NaN)."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(format(value, ".6g"))


def _unwatched(trace: Trace) -> int:
    """Steps of small models that have no row, as the rows after them say, and those that a process that was killed had only
    counted; only a single rank has any."""
    steps = trace.sql(
        "SELECT max(u.steps + greatest(0, coalesce(p.step - greatest(u.last, coalesce(s.last, 0)) - 1, 0))) AS steps FROM"
        " (SELECT rank, sum(steps)::BIGINT AS steps, max(step) AS last FROM unwatched_steps GROUP BY rank) u"
        " LEFT JOIN (SELECT rank, max(step) AS last FROM steps GROUP BY rank) s USING (rank)"
        " LEFT JOIN last_positions p USING (rank)"
    ).item()
    return steps or 0


def _facts(trace: Trace) -> RunFacts:
    row = trace.sql(
        "SELECT count(DISTINCT step) FILTER (completed) AS steps, max(step) FILTER (completed) AS last FROM steps"
    ).row(0, named=True)
    world = trace.manifest.world_size or trace.sql("SELECT max(world_size) FROM ranks").item()
    imported = bool(trace.manifest.options.get("imported"))
    profiled = (
        trace.sql("SELECT max(ns)::BIGINT FROM (SELECT sum(ns) AS ns FROM profiled_steps GROUP BY rank)").item()
        if imported and trace.has("profiler_events")
        else None
    )
    dumped = trace.sql("SELECT count(DISTINCT rank) FROM process_groups").item() if imported else 0
    exit_ = {} if trace.exit is None else cast("dict[str, Any]", plain(msgspec.to_builtins(trace.exit)))
    return RunFacts(
        run_id=trace.manifest.run_id,
        path=str(trace.path),
        status=trace.status,
        exit=exit_,
        world_size=world or 1,
        steps_recorded=(row["steps"] or 0) + _unwatched(trace),
        last_durable_step=row["last"],
        profiled_ns=profiled,
        imported=imported,
        dumped_ranks=dumped,
    )


def _imported_problems(trace: Trace, facts: RunFacts) -> list[str]:
    """What imported files do not tell, so that less could be judged."""
    profiler = trace.filled("profiler_events")
    if profiler and "cat" not in profiler:
        return [
            say(
                "the events of the profile have no category: nothing shows which of them ran on a device, so none was judged"
            )
        ]
    if facts.steps_recorded == 0 and trace.manifest.options.get("imported"):
        return [say("the imported files mark no step: each was judged as a whole, and rules that need steps could not")]
    return []


def _reading_problems(trace: Trace, facts: RunFacts, rules: RuleSet) -> list[NotEvaluable]:
    """What the recording itself leaves open, under the catalogue's name for it."""
    unseen = unrecorded(trace, steps=facts.steps_recorded)
    why = [*unseen, *snapshot_sentences(trace), *call_sentences(trace)]
    why += profile_memory_sentences(trace) if trace.manifest.options.get("imported") else []
    why += [f"{p.path}: {in_words('problem', p.what)}" for p in sorted(trace.problems, key=lambda p: p.path)]
    if rules.ignored is not None:
        why.append(
            say(
                "{file} is ignored, because it came with the run; to use it, copy it into the current folder",
                file=rules.ignored,
            )
        )
    if trace.manifest.options.get("imported") and trace.has("events"):
        found = trace.sql(
            "SELECT message FROM events WHERE event IN ('loss-not-found', 'execution-trace-imported') ORDER BY message"
        )
        why += [in_words("event", str(message).rstrip(".")) for message in found["message"]]
    if trace.status == "running":
        why.append(say("the run is still being written"))
    if trace.status == "host-lost":
        why.append(say("the record ends without an exit and the process is gone: the host may have died"))
    thinned, rows = trace.sql(
        "SELECT count(*) FILTER (left_out <> ['']) AS thinned, count(*) AS steps FROM step_detail"
    ).row(0)
    if thinned or _unwatched(trace):
        kinds = trace.sql("SELECT DISTINCT unnest(left_out) AS kind FROM step_detail ORDER BY kind")["kind"].to_list()
        named = ", ".join(say(str(k).replace("_", " ")) for k in kinds if k)
        if _unwatched(trace):
            named = ", ".join(filter(None, (named, say("gradient norms and calls"))))
        why.append(
            say(
                "recording was sampled: {kinds} were not measured in {thinned} of {steps} steps; what they show is bounded by"
                " the steps that measured them, and faults that came and went between these cannot be seen",
                kinds=named,
                thinned=thinned + _unwatched(trace),
                steps=rows + _unwatched(trace),
            )
        )
    removed = trace.sql(
        "SELECT sum(rows)::BIGINT AS n, min(first_step) AS first, max(last_step) AS last FROM thinned"
    ).row(0)
    if removed[0]:
        why.append(
            say(
                "{rows} rows of tensor_stats of steps {first} to {last} were removed to keep the folder within --disk-limit;"
                " these steps count as not measured",
                rows=removed[0],
                first=removed[1],
                last=removed[2],
            )
        )
    for option in ("include", "exclude"):
        if patterns := trace.manifest.options.get(option):
            named = ", ".join(map(str, patterns))
            only = say("--include {patterns}: only these tensors were measured, and judged", patterns=named)
            without = say("--exclude {patterns}: these tensors were not measured, and judged", patterns=named)
            why.append(only if option == "include" else without)
    if facts.steps_recorded and not trace.filled("steps") & _SIGNS and not trace.has("tensor_stats"):
        why.append(
            say("neither losses, gradient norms nor tensors of this run are known: nothing shows whether it learnt")
        )
    if imported := _imported_problems(trace, facts):
        why += imported
    elif facts.steps_recorded == 0 and not unseen:
        why.append(say("no training step was completed: nothing to judge"))
    return [NotEvaluable(code="RE005", name="recording-incomplete", why=w) for w in why]


def _conclude(trace: Trace, facts: RunFacts, causes: list[Finding], silent: set[str]) -> Conclusion:
    if any(c.severity != "warning" for c in causes):
        return "anomalous"
    few = FEW_STEPS_RUNNING if trace.status == "running" else FEW_STEPS
    if facts.steps_recorded < few or silent >= _ESSENTIAL or trace.status in {"host-lost", "hang", "unknown"}:
        return "inconclusive"
    if not trace.filled("steps") & _SIGNS and not trace.has("tensor_stats"):
        return "inconclusive"  # neither a loss nor a tensor of the run is known, as in an imported profiler trace
    if any(c.name == "recording-incomplete" and c.signal == "missing steps" for c in causes):
        return "inconclusive"  # what those steps did is not known
    if trace.rows_damaged:
        return "inconclusive"  # what is missing may be what was wrong
    return "healthy"


def _first_anomaly(causes: list[Finding], symptoms: list[Finding]) -> FirstAnomaly | None:
    """The earliest cause's place; where that cause names no tensor, the first non-finite tensor of its step does. None where
    the cause knows no step, as in dumps of the ranks' calls."""
    real = [c for c in causes if c.severity != "warning"]
    first = min(real, key=lambda c: (step_of(c), PHASES.index(c.phase) if c.phase in PHASES else len(PHASES)))
    place = first
    if first.step is None:
        return None
    if first.module is None and first.tensor is None:
        tensors = [s for s in symptoms if s.code == "NU000" and (s.step, s.rank) == (first.step, first.rank)]
        place = tensors[0] if tensors else first
    return FirstAnomaly(
        step=step_of(first),
        step_lower=step_of(first) if first.step_lower is None else first.step_lower,
        step_upper=step_of(first),
        microbatch=place.microbatch,
        rank=first.rank,
        phase=place.phase,
        module=place.module,
        tensor=place.tensor,
        signal=place.signal,
        value=place.value,
    )


def _step_lower(trace: Trace, fired: Fired) -> int:
    """First step at which the fault can have begun: after the last step before the finding's own at which all that its rule
    looks at was measured."""
    finding, needs = fired.finding, fired.rule.header.needs
    kinds = set(needs.kinds)
    if finding.tensor is not None:
        row = trace.sql(
            "SELECT kind FROM nonfinite_origin WHERE rank = $rank AND step = $step AND tensor = $tensor"
            " UNION SELECT kind FROM tensors WHERE rank = $rank AND tensor_name = $tensor AND kind IN ('activation', 'buffer')",
            {"rank": finding.rank, "step": finding.step, "tensor": finding.tensor},
        )
        kinds |= set(row["kind"].to_list())
    wanted = sorted({DETAIL_OF[k] for k in (*kinds, *needs.columns) if k in DETAIL_OF})
    before = trace.sql(
        "SELECT max(step) FROM step_detail WHERE rank = $rank AND step < $step AND NOT list_has_any(left_out, $wanted)",
        {"rank": finding.rank, "step": finding.step, "wanted": wanted},
    ).item()
    first = trace.sql("SELECT min(step) FROM steps WHERE rank = $rank", {"rank": finding.rank}).item()
    lower = first if before is None else before + 1
    return step_of(finding) if lower is None else min(lower, step_of(finding))
