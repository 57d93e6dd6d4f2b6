"""What the rest of a script shows, which a preflight rehearses in a start of its own: each pass of its training is cut to a few
batches, so that its last epoch, what it saves then and what it does with that come within seconds."""

from pathlib import Path

from ...analyzer import Trace, Verdict, diagnose, rules_for
from ...schemas.files.layout import RUN_JSON
from ...schemas.files.probe_report import ProbePlan
from ..text.language import say
from .preflight_facts import Fact
from .rerun_script import Script, finish, record

SECONDS = 10.0
"""Seconds for it, of the 72 of a preflight: it is the last thing that is tried."""

_WITHOUT_END = 10**9
"""Steps of a start that only time ends."""

_RULES = frozenset(
    {
        "batches-without-backward",
        "broken-graph",
        "checkpoint-not-loaded",
        "division-by-zero",
        "domain-error",
        "double-softmax",
        "ema-not-updated",
        "file-descriptor-leak",
        "frozen-parameters",
        "graph-retained-across-steps",
        "hook-leak",
        "log-of-zero",
        "loss-domain-mismatch",
        "lr-jump-on-resume",
        "nonfinite-input",
        "nonfinite-tensor",
        "nonfinite-update",
        "nonfinite-weights-loaded",
        "optimizer-state-lost",
        "parameters-not-in-optimizer",
        "restored-from-alias",
        "result-discarded",
        "scheduler-before-optimizer",
        "sqrt-at-zero",
        "stuck-in-eval-mode",
        "tied-weights-untied",
        "train-mode-in-eval",
        "trained-from-average",
        "uninitialised-parameter",
        "unintended-trainable",
        "unregistered-parameters",
        "zero-lr",
    }
)
"""Rules that judge what the code does. Others judge how a loss, an accumulation or the data go on over whole passes, and here
none is whole."""


def goes_over_a_loader(trace: Trace) -> bool:
    """Whether a pass over a loader feeds the training of a run: only such a pass can be cut."""
    return bool(trace.sql("SELECT count(*) AS n FROM batches WHERE phase <> 'eval' AND loader_id IS NOT NULL").item())


def script_end(script: Script, folder: Path, since: int, first: Verdict, seconds: float, patience: float) -> list[Fact]:
    """Start the script with its passes cut from step ``since`` on, for ``seconds``; what rules have not said of its ``first``
    start, and how it ended."""
    run = folder / "script-end"
    values = {"own": str(folder)}
    plan = ProbePlan(folder=str(folder / "script-end-plan"), intervention="passes-shortened", step=since, values=values)
    finish(record(script, run, steps=_WITHOUT_END, seconds=seconds, plan=plan, again=True), seconds, patience)
    return judged(run, first, since)


def judged(run: Path, first: Verdict, since: int) -> list[Fact]:
    """What a run says whose passes were cut from step ``since`` on."""
    if not (run / RUN_JSON).exists():
        return []
    with Trace(run) as trace:
        passes = trace.sql(
            "SELECT count(DISTINCT epoch) AS n FROM batches WHERE phase <> 'eval' AND loader_id IS NOT NULL AND step >= $since",
            {"since": since},
        ).item()
        known = {f.name for f in [*first.causes, *first.symptoms]}
        verdict = diagnose(trace, rules_for(run, None))
        facts: list[Fact] = [
            ("verdict", f.name, "failed", f"{f.code} {f.name}: {f.message} {f.fix}")
            for f in (verdict.causes if verdict.verdict == "anomalous" else [])
            if f.name in _RULES and f.name not in known and f.severity in {"error", "fatal"}
        ]
        error = trace.exit.exception if trace.status == "exception" and trace.exit is not None else None
        if error is not None and error.step is not None and error.step >= since:
            words = say(
                "After {passes} passes that preflight cut short, the script raised {error}",
                passes=passes,
                error=f"{error.type}: {error.message}"[:200],
            )
            facts.append(("verdict", _NAME, "untried" if "rehearsal" in error.message else "doubtful", words))
        if facts:
            return facts
        if bool(trace.sql("SELECT bool_or(by_itself) AS e FROM script_ended").item()):
            words = say(
                "The script was rehearsed to its end, each pass over the data cut short: no rule found a fault."
            )
        else:
            words = say("{passes} more passes were rehearsed, each cut short: no rule found a fault.", passes=passes)
        return [("verdict", _NAME, "passed", words)]


_NAME = "end of the script"
