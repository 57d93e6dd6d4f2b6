"""Two runs side by side: where they part first, what else differs, and whether that explains it.

The first divergence is looked for among everything that was captured, in the order of capture: batches, tensors, the
totals of each step, the settings of the optimizer. Whether the runs agree is said twice: to the last bit, and within
what rounding and the runs' own scatter from step to step can account for (see divergence.py).
"""

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import polars as pl

from ...schemas import RunManifest
from ..errors import AnalyzerError
from ..language import say
from ..reading.trace import Trace
from ..verdict import Finding, Verdict
from ..word_patterns import in_words
from .divergence import CAPTURED, Differences, Divergence, compare_tensors
from .settings_apart import SettingChange, setting_changes

_BATCHES = """
SELECT b.rank, b.step, coalesce(b.microbatch, 0) AS microbatch, b.field, b.role, b.phase, b.seq, b.fingerprint, b.sample_indices,
    row_number() OVER (PARTITION BY b.rank, b.step, b.microbatch, b.field, b.phase ORDER BY b.seq) AS nth
FROM batches b WHERE b.step BETWEEN $first AND $last AND b.fingerprint IS NOT NULL
"""

_RNG = "SELECT rank, step, any_value(rng) AS rng FROM steps WHERE rng IS NOT NULL GROUP BY rank, step"

_PACE = """
SELECT count(DISTINCT step) FILTER (completed) AS steps, min(step) AS first, max(step) AS last, median(step_ns) AS step_ns,
    median(forward_ns) AS forward_ns, median(backward_ns) AS backward_ns, median(optimizer_ns) AS optimizer_ns,
    sum(data_wait_ns) / nullif(sum(step_ns) FILTER (data_wait_ns IS NOT NULL), 0) AS data_wait_share,
    sum(recorder_ns) / nullif(sum(step_ns) FILTER (recorder_ns IS NOT NULL), 0) AS recorder_share,
    max(rss_bytes) AS rss_bytes, max(cuda_peak_bytes) AS cuda_peak_bytes
FROM steps WHERE rank = 0
"""

_RANK_FACTS = (
    "SELECT seed, seeded, python_rng, numpy_rng, deterministic, threads, devices, torch_version, world_size"
    " FROM ranks ORDER BY rank LIMIT 1"
)


_MODEL_FACTS = """
SELECT (SELECT string_agg(DISTINCT autocast, ' ' ORDER BY autocast) FROM steps) AS autocast,
    (SELECT string_agg(DISTINCT dtype, ' ' ORDER BY dtype) FROM tensors WHERE kind = 'parameter') AS dtypes,
    (SELECT sum(own_numel)::BIGINT FROM modules WHERE rank = (SELECT min(rank) FROM modules)) AS numel
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is not the same in both runs. ``group``: code, configuration, seed, environment, recording."""

    group: str
    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a run was and what it held. Times in ns per step (medians of rank 0), shares of the step time, bytes.
    ``status`` is how the run ended. Null is not measured."""

    status: str
    steps: int
    first: int | None
    last: int | None
    step_ns: float | None
    forward_ns: float | None
    backward_ns: float | None
    optimizer_ns: float | None
    data_wait_share: float | None
    recorder_share: float | None
    rss_bytes: int | None
    cuda_peak_bytes: int | None


@dataclass(frozen=True, slots=True)
class BatchComparison:
    """``first`` is the first step with another batch, None where all are equal; ``same_samples`` says whether the sampler
    drew the same samples there (None: unknown). ``compared`` counts fields."""

    compared: int
    first: int | None
    same_samples: bool | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the runs part, as far as the recordings show. ``code`` is a rule's where it has one: RE001, RE002."""

    code: str | None
    name: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class SharedFinding:
    """A finding by name, with its first step in each run; None where that run does not have it. ``cause``: in any run."""

    name: str
    code: str
    cause: bool
    step_a: int | None
    step_b: int | None


@dataclass(slots=True)
class Comparison:
    """All that is said about two runs. ``first_step`` and ``last_step`` bound the steps that both have."""

    first_step: int
    last_step: int
    common_steps: int
    exact: Divergence | None
    beyond: Divergence | None
    tensors: Differences
    batches: BatchComparison
    rng_step: int | None
    settings: list[SettingChange]
    differences: list[Difference]
    explanation: Explanation | None
    pace: tuple[Pace, Pace]
    findings: list[SharedFinding]


def compare(a: Trace, b: Trace, verdict_a: Verdict, verdict_b: Verdict) -> Comparison:
    """Compare two runs. Raises AnalyzerError where they have no step in common."""
    pace = _pace(a), _pace(b)
    steps = _common(a, b, pace)
    first, last = int(steps[0]), int(steps[-1])
    tensors = compare_tensors(a, b, first, last)
    batches, batch_divergences = _compare_batches(a, b, first, last)
    settings = setting_changes(a, b, first, last)
    found = [d for d in (tensors.exact, *batch_divergences, *(s.divergence for s in settings)) if d is not None]
    exact = min(found, key=lambda d: d.place, default=None)
    # a setting, or another sample, is no rounding
    certain = [d for d in batch_divergences if d.measure == "sample_indices"]
    far = [d for d in (tensors.beyond, *certain, *(s.divergence for s in settings if s.real)) if d is not None]
    beyond = min(far, key=lambda d: d.place, default=None)
    differences = _differences(a, b)
    comparison = Comparison(
        first_step=first,
        last_step=last,
        common_steps=len(steps),
        exact=exact,
        beyond=beyond,
        tensors=tensors,
        batches=batches,
        rng_step=_rng_step(a, b, first, last),
        settings=settings,
        differences=differences,
        explanation=None,
        pace=pace,
        findings=_findings(verdict_a, verdict_b),
    )
    comparison.explanation = _explain(comparison, a, b)
    if comparison.explanation is not None:
        comparison.explanation = replace(
            comparison.explanation, message=comparison.explanation.message + _appeared(comparison)
        )
    return comparison


def _appeared(c: Comparison) -> str:
    """Tensors that only one run has, and has first in the step of the first difference: they may be what makes it."""
    at = None if c.exact is None else c.exact.step
    told = ""
    for run, only in (("A", c.tensors.only_a), ("B", c.tensors.only_b)):
        here = [name for name, first in only if first == at and first > c.first_step]
        if here:
            more = say(" and {here} more", here=len(here) - 2) if len(here) > 2 else ""
            told += say(
                " From this step on only {run} has {names}{more}.", run=run, names=", ".join(here[:2]), more=more
            )
    return told


def _common(a: Trace, b: Trace, pace: tuple[Pace, Pace]) -> pl.Series:
    steps = [t.sql("SELECT DISTINCT step FROM steps WHERE completed")["step"] for t in (a, b)]
    common = steps[0].filter(steps[0].is_in(steps[1].implode())).sort()
    if not len(common):
        reach = [f"{t.path} has {_reach(p)}" for t, p in zip((a, b), pace, strict=True)]
        raise AnalyzerError(f"no step in common: {reach[0]}, {reach[1]}; compare runs that trained the same steps")
    return common


def _reach(pace: Pace) -> str:
    return f"steps {pace.first} to {pace.last}" if pace.steps else "no step"


def _pace(trace: Trace) -> Pace:
    return Pace(status=trace.status, **trace.sql(_PACE).row(0, named=True))


def _compare_batches(a: Trace, b: Trace, first: int, last: int) -> tuple[BatchComparison, list[Divergence]]:
    """Fingerprints of every field of every batch, and the first that differs as a divergence."""
    span = {"first": first, "last": last}
    key = ["rank", "step", "microbatch", "field", "phase", "nth"]
    left, right = (t.sql(_BATCHES, span) for t in (a, b))
    both = left.join(right.select(*key, "fingerprint", "sample_indices"), on=key, how="inner", suffix="_b")
    apart = both.filter(pl.col("fingerprint") != pl.col("fingerprint_b")).sort("step", "seq", "rank")
    if not apart.height:
        return BatchComparison(both.height, None, None), []
    row = apart.row(0, named=True)
    drawn, drawn_b = row["sample_indices"], row["sample_indices_b"]
    same = None
    measure, values = "fingerprint", (row["fingerprint"], row["fingerprint_b"])
    if drawn is not None and drawn_b is not None:
        same = drawn == drawn_b
        if not same:
            # from the first place on at which they differ
            at = next((i for i, (x, y) in enumerate(zip(drawn, drawn_b, strict=False)) if x != y), 0)
            measure, values = "sample_indices", (drawn[at : at + 8], drawn_b[at : at + 8])
    divergence = Divergence(
        step=row["step"],
        step_lower=row["step"],
        what="batch",
        kind=row["role"],
        name=row["field"],
        module=None,
        phase=row["phase"],
        rank=row["rank"],
        microbatch=row["microbatch"],
        measure=measure,
        a=values[0],
        b=values[1],
        order=(CAPTURED, row["seq"], -1),  # before the moments of the same tensor
    )
    return BatchComparison(both.height, row["step"], same), [divergence]


def _rng_step(a: Trace, b: Trace, first: int, last: int) -> int | None:
    """First step at whose end torch's random state differs."""
    both = a.sql(_RNG).join(b.sql(_RNG), on=["rank", "step"], how="inner", suffix="_b")
    apart = both.filter((pl.col("rng") != pl.col("rng_b")) & pl.col("step").is_between(first, last))
    return apart["step"].min() if apart.height else None  # pyright: ignore[reportReturnType]  # a whole number


def _differences(a: Trace, b: Trace) -> list[Difference]:
    """Facts of start and process that differ, in reading order."""
    facts = _facts(a), _facts(b)
    names = list(dict.fromkeys([*facts[0], *facts[1]]))
    return [
        Difference(group, name, _words(facts[0].get((group, name))), _words(facts[1].get((group, name))))
        for group, name in names
        if facts[0].get((group, name)) != facts[1].get((group, name))
    ]


def _facts(trace: Trace) -> dict[tuple[str, str], Any]:
    m = trace.manifest
    rank = trace.sql(_RANK_FACTS)
    process: dict[str, Any] = rank.row(0, named=True) if rank.height else {}
    code = {"script": m.script, "arguments": _arguments(m), "content of the script": m.script_sha256}
    code |= {"git commit": m.git_commit, "uncommitted changes": m.git_dirty}
    seed = {k: process.get(k) for k in ("seed", "seeded")}
    seed |= {"state of random": process.get("python_rng"), "state of numpy.random": process.get("numpy_rng")}
    environment = {"python": m.python, "platform": m.platform, "host": m.hostname}
    environment |= {"devices": process.get("devices"), "threads": process.get("threads")}
    environment |= {"deterministic algorithms": process.get("deterministic")}
    environment |= {"processes": process.get("world_size") or m.world_size}
    environment |= m.versions
    recording = {"firstfault": m.firstfault_version, **_flat(m.options)}
    made = trace.sql(_MODEL_FACTS).row(0, named=True)
    configuration = _flat(m.config) | {"autocast": made["autocast"], "dtypes of the parameters": made["dtypes"]}
    configuration |= {"elements of the parameters": made["numel"]}
    groups = {"code": code, "configuration": configuration, "seed": seed}
    groups |= {"environment": environment, "recording": recording}
    return {(group, str(name)): value for group, values in groups.items() for name, value in values.items()}


def _arguments(manifest: RunManifest) -> list[str]:
    """What the script was given: argv without the interpreter and the script or module itself."""
    own = [manifest.script] if not manifest.script.startswith("-m ") else manifest.script.split(" ", 1)
    given = manifest.argv[1:]
    return given[len(own) :] if given[: len(own)] == own else given


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration with nested keys joined by dots."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            out |= _flat(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = value
    return out


def _words(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return " ".join(value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _findings(a: Verdict, b: Verdict) -> list[SharedFinding]:
    """Findings of either verdict by name: causes first, then by step."""
    steps: list[dict[str, Finding]] = []
    for verdict in (a, b):
        by_name: dict[str, Finding] = {}
        for f in (*verdict.causes, *verdict.symptoms):
            by_name.setdefault(f.name, f)
        steps.append(by_name)
    causes = {f.name for v in (a, b) for f in v.causes}
    out = [
        SharedFinding(
            name, (steps[0].get(name) or steps[1][name]).code, name in causes, *(_step(s, name) for s in steps)
        )
        for name in dict.fromkeys([*steps[0], *steps[1]])
    ]
    return sorted(out, key=lambda f: (not f.cause, min(s for s in (f.step_a, f.step_b) if s is not None), f.name))


def shown_setting(group: str, name: str) -> str:
    """What was started, as a reader calls it: our own words in the current language, a script's own settings as they are."""
    return name if group in {"configuration", "recording"} and name not in _OWN_NAMES else say(name)


_OWN_NAMES = {"dtypes of the parameters", "elements of the parameters"}


def _step(findings: dict[str, Finding], name: str) -> int | None:
    return findings[name].step if name in findings else None


def _explain(c: Comparison, a: Trace, b: Trace) -> Explanation | None:
    """What brought the first difference about: the earliest thing that differs by intent, or nothing that is recorded."""
    at = c.exact
    if at is None:
        return None
    apart = {(d.group, d.name) for d in c.differences}
    seeded = [bool(t.sql("SELECT bool_and(seeded) AS s FROM ranks").item()) for t in (a, b)]
    if at.what == "setting":
        return Explanation(
            None,
            "setting-changed",
            say(
                "{name} is {a} in A and {b} in B at step {step}; until then nothing differs.",
                name=in_words("subject", at.name),
                a=_number(at.a),
                b=_number(at.b),
                step=at.step,
            ),
            say(
                "If the setting was changed on purpose, this is its effect; otherwise look at the configuration and the schedule."
            ),
        )
    same_code = a.manifest.script_sha256 is not None and a.manifest.script_sha256 == b.manifest.script_sha256
    # the same file by another path is the same code
    by_intent = [
        d
        for d in c.differences
        if d.group in {"code", "configuration"} and not (same_code and (d.group, d.name) == ("code", "script"))
    ]
    if ("seed", "seed") in apart:
        if not any(seeded):
            return Explanation(
                "RE002",
                "unseeded-run",
                say("No seed was set in either run, so weights and batches are drawn again each time."),
                say("Call torch.manual_seed before the model is built; seed random and numpy where they are used."),
            )
        seeds = next(d for d in c.differences if (d.group, d.name) == ("seed", "seed"))
        return Explanation(
            None,
            "other-seed",
            say("The runs were started from different seeds: {a} in A, {b} in B.", a=seeds.a, b=seeds.b),
            say("Give both runs the same seed; otherwise the comparison shows chance."),
        )
    if by_intent:
        named = say(", ").join(dict.fromkeys(shown_setting(d.group, d.name) for d in by_intent))
        return Explanation(
            None,
            "changed-by-intent",
            say(
                "What was started is not the same ({named}); the seed is. Either the change takes effect here, or the run"
                " is not deterministic.",
                named=named,
            ),
            say("Look at what was changed; to tell the two apart record the same command twice and compare that."),
        )
    around = [shown_setting(d.group, d.name) for d in c.differences if d.group == "environment"]
    generators = [n.removeprefix("state of ") for g, n in apart if g == "seed" and n.startswith("state of ")]
    batch = c.batches.first
    if batch is not None and batch <= at.step:
        drawn = say(" The sampler drew other samples.") if c.batches.same_samples is False else ""
        return Explanation(
            "RE001",
            "nondeterministic-run",
            say(
                "Same seed and same code, but the batches differ from step {batch} on.{drawn}", batch=batch, drawn=drawn
            )
            + (
                say(" The state of {names} differed before the first step.", names=_joined(generators))
                if generators
                else ""
            ),
            say("Give the loader a seeded generator, seed the workers, and fix the order in which files are listed."),
        )
    code = (
        say("same seed, same batches, same code")
        if same_code
        else say("same seed, same batches, code not known to differ")
    )
    told = say(" What else differs: {names}.", names=say(", ").join(around)) if around else ""
    rng = c.rng_step
    drew = (
        say(" torch's random state differs from step {rng} on: one run drew more random numbers.", rng=rng)
        if rng is not None and rng <= at.step
        else ""
    )
    generators_told = (
        say(" The state of {names} differed before the first step.", names=_joined(generators)) if generators else ""
    )
    return Explanation(
        "RE001",
        "nondeterministic-run",
        say(
            "With {code}, {name} ({kind}) is the first tensor that differs, at step {step}.{drew}{generators_told}{told}",
            code=code,
            name=at.name,
            kind=say(at.kind.replace("_", " ")),
            step=at.step,
            drew=drew,
            generators_told=generators_told,
            told=told,
        ),
        say(
            "torch.use_deterministic_algorithms(True) makes operators that are not deterministic raise and so names them."
        )
        + (say(" Use the same versions, devices and number of threads.") if around else ""),
    )


def _joined(names: list[str]) -> str:
    return say(" and ").join(sorted(names))


def _number(value: Any) -> str:
    return format(value, ".6g") if isinstance(value, float) else str(value)
