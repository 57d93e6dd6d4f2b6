"""A run that goes on, reduced to what fits a terminal: how far it is, how it goes, what was noticed."""

import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import polars as pl
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..analyzer import Trace
from ..analyzer.verdict import Verdict
from ..analyzer.word_patterns import in_words
from .page.terminal import COLOURS
from .sections.ending import end_sentence
from .sections.findings import reduce_headline
from .text.language import say
from .text.wording import duration, number, plural, show_name, size

RECENT = 20
"""Steps over which rates and medians are taken."""

COURSE = 48
"""Characters of the small curve of the loss."""

MOST_EVENTS = 5

_BARS = "▁▂▃▄▅▆▇█"

_STEPS_SQL = """
SELECT step, loss, coalesce(clip_norm, grad_norm) AS norm, lr, update_ratio, step_ns::DOUBLE AS step_ns,
       data_wait_ns::DOUBLE AS data_wait_ns, recorder_ns::DOUBLE AS recorder_ns, rss_bytes, time_ns
FROM step_series WHERE rank = (SELECT min(rank) FROM steps) ORDER BY step
"""

_EPOCH_SQL = "SELECT max(epoch) FROM steps"

_NOTES_SQL = """
SELECT step, event, message FROM events WHERE event IN
    ('warning', 'exception', 'capture', 'rows-dropped', 'recorder-fault', 'mode-changed', 'recompiled', 'hang')
ORDER BY time_ns DESC LIMIT $most
"""


@dataclass(frozen=True, slots=True)
class Live:
    """One look at a run. ``lines``: (label, words); ``course``: the loss as a small curve, ``×`` where it was lost.

    ``step``, ``loss``: of the newest step, None before the first.
    """

    name: str
    status: str
    going_on: bool
    lines: list[tuple[str, str]]
    course: str
    notes: list[str]
    step: int | None = None
    loss: float | None = None


def look_at(trace: Trace, now_ns: int | None = None) -> Live:
    """Reduce what is on disk at this moment."""
    now = time.time_ns() if now_ns is None else now_ns
    steps = trace.sql(_STEPS_SQL)
    status = str(trace.status)
    going_on = status == "running"
    lines: list[tuple[str, str]] = []
    if steps.height:
        last, recent = steps.row(-1, named=True), steps.tail(RECENT)
        epoch = trace.sql(_EPOCH_SQL).item()
        since = say(", {x} ago", x=duration(max(0, now - last["time_ns"]))) if going_on and last["time_ns"] else ""
        lines.append(
            ("step", f"{number(last['step'])}{'' if epoch is None else say(', epoch {epoch}', epoch=epoch)}{since}")
        )
        lines.append(
            (
                "loss",
                say(
                    "{loss}   median of {height}: {median}",
                    loss=number(last["loss"]),
                    height=recent.height,
                    median=number(_median(recent, "loss")),
                ),
            )
        )
        lines.append(
            (
                "optimizer",
                say(
                    "lr {lr}   gradient norm {norm}   update ratio {update_ratio}",
                    lr=number(last["lr"]),
                    norm=number(last["norm"]),
                    update_ratio=number(last["update_ratio"]),
                ),
            )
        )
        step_ns = _median(recent, "step_ns")
        if step_ns:
            wait = (_median(recent, "data_wait_ns") or 0) / step_ns
            own = (_median(recent, "recorder_ns") or 0) / step_ns
            rate = say(
                "{x} steps/s   {step_ns} a step", x=number(1000000000.0 / step_ns, digits=3), step_ns=duration(step_ns)
            )
            lines.append(
                (
                    "rate",
                    say("{rate}   waiting for data {wait:.0%}   recording {own:.1%}", rate=rate, wait=wait, own=own),
                )
            )
        if last["rss_bytes"] is not None:
            lines.append(("memory", size(last["rss_bytes"])))
    else:
        lines.append(("step", say("none recorded yet")))
    lines.append(("ended", end_sentence(status, trace.exit)) if not going_on else ("status", say("running")))
    notes = [
        say(
            "step {step}: {event}, {message}",
            step=r["step"],
            event=r["event"],
            message=show_name(in_words("event", r["message"]), empty=""),
        )
        if r["step"] is not None
        else f"{r['event']}, {show_name(in_words('event', r['message']), empty='')}"
        for r in trace.sql(_NOTES_SQL, {"most": MOST_EVENTS}).iter_rows(named=True)
    ]
    name = show_name(Path(trace.path).resolve().name)
    newest = steps.row(-1, named=True) if steps.height else {"step": None, "loss": None}
    course = course_of(steps["loss"].to_list())
    return Live(name, status, going_on, lines, course, notes, newest["step"], newest["loss"])


def course_of(values: list[float | None], width: int = COURSE) -> str:
    """A curve of at most ``width`` characters: medians of equal stretches; ``×`` where nothing finite was left of one."""
    if not values:
        return ""
    series = pl.Series(values, dtype=pl.Float64)
    count = min(width, len(series))
    edges = [len(series) * i // count for i in range(count + 1)]
    points: list[float | None] = []
    for low, high in pairwise(edges):
        part = series[low:high].drop_nulls()
        finite = part.filter(part.is_finite())
        middle = finite.median() if finite.len() == part.len() and finite.len() else None
        points.append(float(middle) if isinstance(middle, float) else None)
    known = [p for p in points if p is not None]
    if not known:
        return "×" * len(points)
    low, span = min(known), max(known) - min(known)
    top = len(_BARS) - 1
    return "".join("×" if p is None else _BARS[round((p - low) / span * top) if span else 0] for p in points)


def view_of_live(live: Live, verdict: Verdict | None) -> RenderableType:
    """What the terminal shows. ``verdict``: the newest one, None before the first."""
    title = Text.assemble((live.name, "bold"), f"  {say(live.status)}")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, words in live.lines:
        table.add_row(say(label), Text(words))
    if live.course:
        table.add_row(say("course"), Text(live.course))
    parts: list[RenderableType] = [title, table]
    if verdict is not None:
        headline = reduce_headline(verdict)
        said = Text()
        said.append(f" {headline.badge.upper()} ", style=f"bold reverse {COLOURS[verdict.verdict]}")
        said.append(f" {headline.title}", style="bold")
        parts.append(said)
        if verdict.causes:
            parts.append(Text(headline.message))
            if headline.fix:
                parts.append(Text(say("Fix: {fix}", fix=headline.fix)))
            others = len(verdict.causes) - 1
            if others:
                parts.append(Text(say("and {causes}", causes=plural(others, "more cause")), style="dim"))
    parts += [Text(note, style="yellow") for note in live.notes]
    return Group(*parts)


def _median(frame: pl.DataFrame, column: str) -> float | None:
    values = frame[column].drop_nulls()
    finite = values.filter(values.is_finite()) if values.dtype.is_float() else values
    middle = finite.median()
    return float(middle) if isinstance(middle, int | float) else None
