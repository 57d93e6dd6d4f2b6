"""Reduce the comparison of two runs to plain data: words, tables and overlaid curves. The page and the terminal show it."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ... import __version__
from ...analyzer import Trace
from ...analyzer.compare.comparison import Comparison, Pace, shown_setting
from ...analyzer.compare.divergence import WINDOW, Divergence
from ...analyzer.verdict import Verdict
from ...analyzer.word_patterns import in_words
from ..sections.curves import Curve, curve_of, loss_frame, step_frame
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import NOT_MEASURED, duration, number, plural, show_name, show_text, size, spoken

LISTED = 40
"""Rows of a table of the page; what is left out is counted."""

GROUPS = {
    "code": "Code",
    "configuration": "Configuration",
    "seed": "Seed and random state",
    "environment": "Environment",
    "recording": "Recording",
}

_MEASURES = {
    "numel": "elements",
    "nan_count": "NaN elements",
    "inf_count": "infinite elements",
    "missing": "no gradient",
    "rms": "root mean square",
    "sum_sq": "sum of squares",
    "sample_indices": "samples, from the first other one on,",
    "min": "minimum",
    "max": "maximum",
}


@dataclass(frozen=True, slots=True)
class CompareHeadline:
    """The result in one sentence, what explains it, and the facts that a reader wants first."""

    conclusion: str
    badge: str
    code: str
    title: str
    message: str
    fix: str
    facts: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ComparePage:
    """One comparison as the page shows it. ``around``: first step in which anything differs."""

    version: str
    names: tuple[str, str]
    around: int | None
    headline: CompareHeadline
    curves: list[Curve]
    at_first: Grid | None
    at_first_step: int | None
    at_first_hidden: int
    settings: Grid | None
    differences: list[tuple[str, Grid]]
    pace: Grid
    findings: Grid | None
    only: list[tuple[str, list[str], int]]
    method: str


def reduce_comparison(a: Trace, b: Trace, c: Comparison) -> ComparePage:
    """Reduce two traces and what was found about them. Reads only."""
    names = run_names(a, b)
    around = c.exact.step if c.exact is not None else None
    rows = [
        [
            say(d.kind.replace("_", " ")),
            show_name(in_words("subject", d.name)),
            show_name(d.module, empty="-"),
            *_values(d),
        ]
        for d in c.tensors.at_first[:LISTED]
    ]
    columns = ["kind", "tensor", "module", "measure", "A", "B", say("relative difference")]
    only = [(say("only in {n}", n=n), t) for n, t in (("A", c.tensors.only_a), ("B", c.tensors.only_b))]
    return ComparePage(
        version=__version__,
        names=names,
        around=around,
        headline=compare_headline(c),
        curves=_curves(a, b, c, around),
        at_first=Grid(columns, rows, [False] * 4 + [True] * 3, 0) if rows else None,
        at_first_step=c.tensors.at_first[0].step if rows else None,
        at_first_hidden=len(c.tensors.at_first) - len(rows),
        settings=_settings(c),
        differences=_differences(c),
        pace=pace_grid(c.pace),
        findings=findings_grid(c),
        only=[
            (
                what,
                [say("{t}, first at step {step}", t=show_name(t), step=step) for t, step in tensors[:LISTED]],
                len(tensors),
            )
            for what, tensors in only
            if tensors
        ],
        method=method(c),
    )


def run_names(a: Trace, b: Trace) -> tuple[str, str]:
    """Names of the two folders; their paths where the names are alike."""
    paths = [Path(t.path).resolve() for t in (a, b)]
    if paths[0].name != paths[1].name:
        return show_name(paths[0].name), show_name(paths[1].name)
    return show_name(str(paths[0])), show_name(str(paths[1]))


def compare_headline(c: Comparison) -> CompareHeadline:
    """The top of the page and of the terminal."""
    steps = plural(c.common_steps, "common step")
    why = c.explanation
    message = show_text(why.message) if why is not None else ""
    code = f"{why.code} {why.name}" if why is not None and why.code else ""
    facts = [(say("First difference"), say("none") if c.exact is None else divergence_words(c.exact))]
    if c.exact is not None:
        facts.append((say("Beyond tolerance"), say("nowhere") if c.beyond is None else divergence_words(c.beyond)))
    facts += [
        (say("Batches"), batch_words(c)),
        (say("Compared"), f"{steps}, {plural(c.tensors.compared, 'measurement')}"),
    ]
    ends = end_words(c)
    if ends:
        facts.append((say("Ended"), ends))
    if c.exact is None:
        text = say("Every recorded moment of every tensor, every batch and every setting is the same.")
        if ends:
            text = say("In all steps that both have, every tensor, batch and setting is the same; {ends}.", ends=ends)
        return CompareHeadline(
            "healthy", say("Equal"), code, say("Equal to the last bit in {steps}", steps=steps), text, "", facts
        )
    fix = show_text(why.fix) if why is not None else ""
    if c.beyond is None:
        title = say("Equal within rounding and scatter; to the last bit until step {step}", step=c.exact.step)
        return CompareHeadline("inconclusive", say("Within tolerance"), code, title, message, fix, facts)
    title = say("Step {step}: {subject} differs first", step=c.exact.step, subject=_subject(c.exact))
    return CompareHeadline("anomalous", say("Diverged"), code, title, message, fix, facts)


def divergence_words(d: Divergence) -> str:
    """Step, place and numbers of a divergence in a line."""
    since = say(" (at the earliest {step_lower})", step_lower=d.step_lower) if d.step_lower < d.step else ""
    measure, a, b, relative = _values(d)
    said = say(", {relative} of its size", relative=relative) if relative else ""
    rank = say("rank {rank}, ", rank=d.rank) if d.rank else ""
    return say(
        "{rank}step {step}{since}, {subject}: {measure} {a} and {b}{said}",
        rank=rank,
        step=d.step,
        since=since,
        subject=_subject(d),
        measure=measure,
        a=a,
        b=b,
        said=said,
    )


def end_words(c: Comparison) -> str:
    """How each run ended, where they did so in other ways or steps; empty where there is no difference."""
    a, b = c.pace
    if (a.status, a.last) == (b.status, b.last):
        return ""
    return say(" and ").join(
        say("{run} {status} at step {step}", run=name, status=say(p.status.replace("-", " ")), step=number(p.last))
        for name, p in zip("AB", c.pace, strict=True)
    )


def batch_words(c: Comparison) -> str:
    """Whether both runs saw the same batches."""
    if not c.batches.compared:
        return say(NOT_MEASURED)
    if c.batches.first is None:
        return say("the same")
    drawn = {True: say(", of the same samples"), False: say(", of other samples"), None: ""}[c.batches.same_samples]
    return say("other ones from step {first} on{drawn}", first=c.batches.first, drawn=drawn)


def method(c: Comparison) -> str:
    """How equal and tolerance are meant."""
    return say(
        "Equal means equal in every recorded moment (elements, NaN, Inf, minimum, maximum, sum, sum of squares) to the last"
        " bit. Beyond tolerance means that mean or root mean square differ by more than {rounding:.2g} of the tensor's size"
        " (half of the digits of the coarsest floating type in use) and the range that they covered in the {window}"
        " measurements before; settings, other samples, shapes and counts of NaN know no tolerance.",
        rounding=c.tensors.rounding,
        window=WINDOW,
    )


def pace_grid(pace: tuple[Pace, Pace]) -> Grid:
    """Speed and memory side by side."""
    a, b = pace
    rows = [[say("steps"), number(a.steps), number(b.steps), ""]]
    for label, name in (
        (say("step time, median"), "step_ns"),
        ("forward", "forward_ns"),
        ("backward", "backward_ns"),
        ("optimizer", "optimizer_ns"),
    ):
        rows.append(_pair(say(label), getattr(a, name), getattr(b, name), duration))
    for label, name in ((say("waiting for data"), "data_wait_share"), (say("recorder's share"), "recorder_share")):
        values = [getattr(p, name) for p in pace]
        rows.append([label, *(say(NOT_MEASURED) if v is None else f"{v:.1%}" for v in values), ""])
    rows.append(_pair(say("resident memory, most"), a.rss_bytes, b.rss_bytes, size))
    if a.cuda_peak_bytes or b.cuda_peak_bytes:
        rows.append(_pair(say("device memory, most"), a.cuda_peak_bytes, b.cuda_peak_bytes, size))
    return Grid(["", "A", "B", "B / A"], rows, [False, True, True, True])


def findings_grid(c: Comparison) -> Grid | None:
    """Which findings are new in B, gone, or in both."""
    rows: list[list[str]] = []
    for f in c.findings:
        steps = ["" if s is None else say("step {s}", s=s) for s in (f.step_a, f.step_b)]
        change = say("new") if f.step_a is None else say("gone") if f.step_b is None else say("both")
        rows.append(
            [
                change,
                f"{show_name(f.code)} {show_name(spoken(f.name))}",
                say("cause") if f.cause else say("symptom"),
                *steps,
            ]
        )
    return Grid(["", "finding", "", "A", "B"], rows, [False] * 3 + [True] * 2) if rows else None


def comparison_json(a: Trace, b: Trace, verdicts: tuple[Verdict, Verdict], c: Comparison) -> dict[str, Any]:
    """What `firstfault compare --json` prints."""
    runs = [
        {"run_id": t.manifest.run_id, "path": str(t.path), "verdict": v.verdict, **asdict(p)}
        for t, v, p in zip((a, b), verdicts, c.pace, strict=True)
    ]
    return {
        "schema_version": 1,
        "a": runs[0],
        "b": runs[1],
        "result": "equal" if c.exact is None else say("within tolerance") if c.beyond is None else "diverged",
        "steps": {"first": c.first_step, "last": c.last_step, "common": c.common_steps},
        "compared": c.tensors.compared,
        "first_divergence": divergence_json(c.exact),
        "beyond_tolerance": divergence_json(c.beyond),
        "rounding": c.tensors.rounding,
        "explanation": None if c.explanation is None else asdict(c.explanation),
        "batches": asdict(c.batches),
        "random_state_differs_from": c.rng_step,
        "settings": [asdict(s) for s in c.settings],
        "differences": [asdict(d) for d in c.differences],
        "tensors_at_first": [divergence_json(d) for d in c.tensors.at_first],
        "only_in_a": [{"name": name, "first_step": first} for name, first in c.tensors.only_a],
        "only_in_b": [{"name": name, "first_step": first} for name, first in c.tensors.only_b],
        "findings": [asdict(f) for f in c.findings],
    }


def divergence_json(d: Divergence | None) -> dict[str, Any] | None:
    """A divergence without what only sorts it."""
    if d is None:
        return None
    return {k: v for k, v in asdict(d).items() if k != "order"}


def _subject(d: Divergence) -> str:
    if d.what == "setting":
        return show_name(in_words("subject", d.name))
    if d.what == "total":
        return in_words("subject", d.name)
    if d.what == "batch":
        return say("batch field {name}", name=show_name(d.name))
    return f"{say(d.kind.replace('_', ' '))} {show_name(in_words('subject', d.name))}"


def _values(d: Divergence) -> list[str]:
    """Measure, both values and the relative difference in words."""
    digits = 5
    if isinstance(d.a, float) and isinstance(d.b, float):
        # as many digits as it takes to tell the two apart
        digits = next((n for n in range(5, 17) if number(d.a, n) != number(d.b, n)), 17)
    relative = "" if d.difference is None else number(d.difference, 2)
    if d.measure == "fingerprint":
        return [say("fingerprint"), *(f"{int(v) & (2**64 - 1):016x}" for v in (d.a, d.b)), relative]
    return [say(_MEASURES.get(d.measure, d.measure)), *(_value(v, digits) for v in (d.a, d.b)), relative]


def _value(value: Any, digits: int) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(number(v) for v in value) + "]"
    return say("none") if value is None else number(value, digits)


def _pair(label: str, a: float | None, b: float | None, words: Any) -> list[str]:
    ratio = "" if not a or b is None else f"{b / a:.3g}"
    return [label, words(a), words(b), ratio]


def _settings(c: Comparison) -> Grid | None:
    rows = [
        [
            show_name(in_words("subject", s.label)),
            say("{first} to {last}", first=s.first, last=s.last),
            number(s.steps),
            _value(s.a, 8),
            _value(s.b, 8),
        ]
        for s in c.settings[:LISTED]
    ]
    columns = ["setting", "steps", say("differs in"), "A", "B"]
    return Grid(columns, rows, [False, True, True, True, True]) if rows else None


def _differences(c: Comparison) -> list[tuple[str, Grid]]:
    out: list[tuple[str, Grid]] = []
    for group, title in GROUPS.items():
        rows = [
            [
                show_name(shown_setting(group, d.name)),
                show_name(d.a, empty=say("none")),
                show_name(d.b, empty=say("none")),
            ]
            for d in c.differences
            if d.group == group
        ]
        if rows:
            out.append((title, Grid(["", "A", "B"], rows, [False] * 3)))
    return out


def _curves(a: Trace, b: Trace, c: Comparison, around: int | None) -> list[Curve]:
    """Each number of both runs in one panel, and how far the tensors are apart."""
    losses, steps = ([frame(t, 0) for t in (a, b)] for frame in (loss_frame, step_frame))
    panels = (
        ("lr", say("Learning rate"), "", pl.col("lr")),
        ("grad_norm", say("Gradient norm"), "", pl.coalesce("clip_norm", "grad_norm")),
        ("update_ratio", say("Update ratio"), "‖ΔW‖ / ‖W‖", pl.col("update_ratio")),
        ("step_time", say("Step time"), "ms", pl.col("step_ns") / 1e6),
    )
    every = [("loss", say("Loss"), "", pl.col("loss"), losses), *((*panel, steps) for panel in panels)]
    curves = [
        curve_of(
            name,
            title,
            unit,
            pl.concat(
                f.select("step", value.cast(pl.Float64).alias("value"), pl.lit(line).alias("line"))
                for f, line in zip(frames, "AB", strict=True)
            ).drop_nulls("value"),
            around,
        )
        for name, title, unit, value, frames in every
    ]
    apart = c.tensors.by_step.filter(pl.col("difference") > 0).select(
        "step", pl.col("difference").alias("value"), pl.lit("").alias("line")
    )
    curves.insert(1, curve_of("difference", say("Largest relative difference of a tensor"), "", apart, around))
    return [curve for curve in curves if curve.points.height or curve.marks.height]
