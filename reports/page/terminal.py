"""The verdict in the terminal: about ten lines that say the same as the top of the page."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...analyzer import Trace
from ...analyzer.diagnosis.snapshot_words import snapshot_sentences
from ...analyzer.rules.texts import values_of
from ...analyzer.verdict import Candidate, Finding, Verdict
from ...analyzer.word_patterns import in_words
from ...schemas import captures_of
from ..sections.capture_view import CaptureView
from ..sections.device_use import device_facts
from ..sections.ending import end_sentence
from ..sections.findings import confidence, first_sign, reduce_headline
from ..text.grid import WHERE, column_name
from ..text.language import say
from ..text.wording import change_in_words, number, plural, sentence_case, show_name, show_text

COLOURS = {"healthy": "green", "anomalous": "red", "inconclusive": "yellow"}
_EVIDENCE_VALUES = 6
_EVIDENCE_WIDTH = 32  # longer values are sentences, which the message has said
_SAID = {*WHERE, "step", "module", "tensor", "place"}


def print_verdict(console: Console, trace: Trace, verdict: Verdict) -> None:
    """Print the verdict. Names are printed as they are: rich markup in them has no effect."""
    headline = reduce_headline(verdict)
    title = Text()
    title.append(f" {headline.badge.upper()} ", style=f"bold reverse {COLOURS[verdict.verdict]}")
    title.append(" ")
    title.append(show_name(headline.title, empty=""), style="bold")
    console.print(title)
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    for label, words in verdict_lines(trace, verdict):
        lines.add_row(say(label), Text(show_text(words)))
    console.print(lines)


def verdict_lines(trace: Trace, verdict: Verdict) -> list[tuple[str, str]]:
    """The lines below the title as (label, words)."""
    headline = reduce_headline(verdict)
    cause = verdict.causes[0] if verdict.causes else None
    lines: list[tuple[str, str]] = []
    if cause is not None:
        if cause.proof is not None:
            lines.append(("proof", say(cause.proof)))
        lines.append(
            ("advice" if verdict.verdict == "healthy" else "cause", f"{cause.code} {cause.name} ({confidence(cause)})")
        )
    lines.append(("", headline.message))
    if headline.fix:
        lines.append(("fix", headline.fix))
    if cause is not None:
        lines += [("memory", sentence_case(words)) for words in snapshot_sentences(trace)]
    if verdict.first_anomaly is not None:
        lines.append((say("first sign"), first_sign(verdict.first_anomaly)))
    lines += _captured(trace)
    if cause is not None and cause.evidence:
        words = _evidence(cause)
        lines += [("evidence", words)] if words else []
        lines += [("perhaps", _candidate(candidate)) for candidate in cause.candidates]
    others = [
        c.name if c.step is None else say("{name} (step {step})", name=c.name, step=c.step) for c in verdict.causes[1:4]
    ]
    if others:
        lines.append(("also", say(", ").join(others)))
    if verdict.symptoms:
        names = list(dict.fromkeys(s.name for s in verdict.symptoms))
        lines.append(
            (
                "symptoms",
                say(", ").join(names[:5]) + (say(" and {names} more", names=len(names) - 5) if len(names) > 5 else ""),
            )
        )
    if device := device_facts(trace):
        lines.append(("device", device))
    lines.append(("ended", end_sentence(str(trace.status), trace.exit)))
    missing = len(verdict.not_evaluable)
    unjudged = say("{rules} not judged", rules=plural(missing, "rule")) if missing else say("every rule judged")
    gaps = say(", {gaps} in the recording", gaps=plural(len(trace.problems), "gap")) if trace.problems else ""
    lines.append(("recorded", f"{plural(verdict.run.steps_recorded, 'step')}{say('; ')}{unjudged}{gaps}"))
    if verdict.changes:
        lines.append(("changed", say("; ").join(change_in_words(c) for c in verdict.changes)))
    lines.append(("more", f"firstfault report {_quoted(str(trace.path))}"))
    return lines


def print_capture(console: Console, capture: CaptureView) -> None:
    """Print one capture: the operators one by one, the first bad one marked, then the facts."""
    console.print(Text(show_name(capture.title, empty=""), style="bold"))
    if capture.operators is not None:
        table = Table("", *map(say, capture.operators.columns), box=None, pad_edge=False)
        for i, row in enumerate(capture.operators.rows):
            bad = i == capture.operators.marked
            cells = [Text(show_text(cell), overflow="fold") for cell in row]
            table.add_row("▶" if bad else "", *cells, style="bold red" if bad else None)
        console.print(table)
    if capture.why:
        console.print(Text(show_text(capture.why)))
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    for label, words in capture.facts:
        lines.add_row(say(label).lower(), Text(show_text(words)))
    console.print(lines)


def _captured(trace: Trace) -> list[tuple[str, str]]:
    """The first bad operator of the first capture, and the command that shows the rest."""
    for folder, meta in captures_of(trace.path):
        words = f"firstfault replay {_quoted(str(folder))}"
        if meta.operator is not None:
            line = in_words("source", meta.operator.get("source") or "")
            words = (
                f"{show_name(meta.operator['op'])}{say(' at {line}', line=show_name(line)) if line else ''}; {words}"
            )
        return [("captured", words)]
    return []


def _evidence(cause: Finding) -> str:
    row = values_of(cause.code, cause.name, cause.evidence[0])
    said = cause.message + cause.fix
    parts = [
        f"{show_name(column_name(k))} {number(v, digits=5)}"
        for k, v in row.items()
        if k not in _SAID
        and v not in (None, "")
        and not isinstance(v, list | dict)
        and len(str(v)) <= _EVIDENCE_WIDTH
        and not (isinstance(v, str) and v in said)
    ]
    more = say(" (+{evidence} rows)", evidence=len(cause.evidence) - 1) if len(cause.evidence) > 1 else ""
    return say(", ").join(parts[:_EVIDENCE_VALUES]) + more


def _candidate(candidate: Candidate) -> str:
    """One candidate of a cause that nothing has evidence for, in one line."""
    parts = [
        say("for it: {words}", words=candidate.for_) if candidate.for_ else "",
        say("against it: {words}", words=candidate.against) if candidate.against else "",
        say("to tell: {words}", words=candidate.tell_apart),
    ]
    return f"{candidate.name}{say(': ')}{say('; ').join(p for p in parts if p)}"


def _quoted(path: str) -> str:
    return path if all(c.isalnum() or c in "/._-+=:@," for c in path) else "'" + path.replace("'", "'\\''") + "'"
