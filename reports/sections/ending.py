"""Reduce how a run ended: one sentence, then what the supervisor and the exception left behind."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...analyzer import Trace
from ...analyzer.word_patterns import in_words
from ...schemas import ExceptionRecord, ExitRecord
from ...schemas.files.layout import OUTPUT_LOG
from ...schemas.files.safe_files import check_file
from ..text.grid import Grid, grid_of
from ..text.language import say
from ..text.wording import duration, moment, show_name, size
from .findings import PHASE_WORDS, place

OUTPUT_LINES = 60
_TAIL_BYTES = 16_384
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


@dataclass(frozen=True, slots=True)
class ExceptionView:
    """The exception in words; ``tensors`` are those that were at hand when it was raised."""

    title: str
    message: str
    where: str
    frame: str | None
    traceback: str
    tensors: Grid | None


@dataclass(frozen=True, slots=True)
class Ending:
    """How the run ended. ``ok`` is True for a script that ended by itself with status 0."""

    ok: bool
    sentence: str
    facts: list[tuple[str, str]]
    exception: ExceptionView | None
    positions: Grid | None
    native_stack: str | None
    output: str | None


def reduce_ending(trace: Trace) -> Ending:
    """Everything about the end of the run that its folder tells."""
    record = trace.exit
    status = str(trace.status)
    untold = status == "completed" and record is not None and record.exit_code is None and bool(record.note)
    facts: list[tuple[str, str]] = [(say("Status"), say("not told") if untold else say(status))]
    if record is not None:
        facts += _facts(record, trace.manifest.started_ns)
    return Ending(
        ok=status == "completed" and (record is None or not record.exit_code),
        sentence=end_sentence(status, record),
        facts=facts,
        exception=_exception(record.exception) if record and record.exception else None,
        positions=_positions(record) if record else None,
        native_stack=record.native_stack if record else None,
        output=_output_tail(Path(trace.path) / OUTPUT_LOG),
    )


def end_sentence(status: str, record: ExitRecord | None) -> str:
    """How the run ended in one sentence, with the last known place for a run that did not end by itself."""
    last = _last_place(record)
    if status == "running":
        return say("The run is still being written.")
    if status == "unknown":
        return say("How the run ended is not known: its exit record is damaged.")
    if status == "host-lost" or record is None:
        return say("The record stops without an exit: the host died, or the supervisor was killed as well.")
    if status == "completed" and record.exit_code is None and record.note:
        note = in_words("note", record.note)
        return say("{note}.", note=show_name(note[:1].upper() + note[1:]))
    if status == "completed":
        return say("The script ended by itself with exit code {exit_code}.", exit_code=record.exit_code or 0)
    if status == "exception" and record.exception is not None:
        e = record.exception
        at = (
            say(" at step {step}, {place}", step=e.step, place=place(e.module, e.phase or ""))
            if e.step is not None
            else ""
        )
        return f"{e.type}{at}: {_first_line(e.message)}"
    if status == "exception":
        return say("The script failed with exit code {exit_code}.", exit_code=record.exit_code)
    name = record.signal_name or (
        say("signal {signal}", signal=record.signal) if record.signal is not None else say("a signal")
    )
    if status == "oom":
        return say("Killed by {name} because memory ran out{last}.", name=name, last=last)
    if status == "hang":
        return say("The run stopped making progress{last} and was ended.", last=last)
    return say("Killed by {name}{last}.", name=name, last=last)


def _last_place(record: ExitRecord | None) -> str:
    if record is None or not record.last_positions:
        return ""
    p = record.last_positions[0]
    return say(" at step {step}, {place}", step=p.step, place=place(p.module, p.phase))


def _facts(record: ExitRecord, started_ns: int) -> list[tuple[str, str]]:
    ran = record.ended_ns - started_ns
    facts = [(say("Ended"), moment(record.ended_ns)), (say("Ran for"), duration(ran) if ran > 0 else say("not told"))]
    if record.exit_code is not None:
        facts.append((say("Exit code"), str(record.exit_code)))
    if record.signal is not None:
        core = say(", core dumped") if record.core_dumped else ""
        facts.append((say("Signal"), f"{record.signal_name or ''} ({record.signal}){core}".strip()))
    if record.memory_peak_bytes is not None:
        limit = record.memory_limit_bytes
        share = (
            say(
                " of {limit} ({memory_peak_bytes:.0%})",
                limit=size(limit),
                memory_peak_bytes=record.memory_peak_bytes / limit,
            )
            if limit
            else ""
        )
        facts.append((say("Memory, peak"), f"{size(record.memory_peak_bytes)}{share}"))
    if record.oom_kills:
        facts.append((say("Kernel out-of-memory kills"), str(record.oom_kills)))
    if record.note:
        facts.append((say("Note"), show_name(in_words("note", record.note))))
    return facts


def _exception(e: ExceptionRecord) -> ExceptionView:
    step = say("step {step}, ", step=e.step) if e.step is not None else ""
    owner = f" ({show_name(e.module_class)})" if e.module_class else ""
    tensors = [{say("held by"): say("module input"), **t} for t in e.inputs]
    tensors += [{say("held by"): say("local variable"), **t} for t in e.locals]
    return ExceptionView(
        title=e.type,
        message=e.message,
        where=f"{step}{place(e.module, e.phase or '')}{owner}" if e.phase or e.module is not None else "",
        frame=e.user_frame,
        traceback=e.traceback,
        tensors=grid_of(tensors),
    )


def _positions(record: ExitRecord) -> Grid | None:
    rows: list[dict[str, Any]] = [
        {
            "rank": p.rank,
            "step": p.step,
            "microbatch": p.microbatch,
            "phase": say(PHASE_WORDS.get(p.phase, p.phase)),
            "module": say("outside modules") if p.module is None else show_name(p.module),
            "seen": moment(p.time_ns),
        }
        for p in record.last_positions
    ]
    return grid_of(rows)


def _output_tail(path: Path) -> str | None:
    try:
        check_file(path, path.parent)
        with path.open("rb") as f:
            f.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            raw = f.read()
    except FileNotFoundError:
        return None
    except OSError as e:
        return say("{name} cannot be read: {strerror}", name=path.name, strerror=e.strerror)
    lines = _TERMINAL_CODES.sub("", raw.decode("utf-8", errors="replace")).replace("\r\n", "\n").split("\n")
    shown = [line.rsplit("\r", 1)[-1] for line in lines][-OUTPUT_LINES:]  # a progress bar's last state
    return "\n".join(shown).strip("\n") or None


def _first_line(message: str) -> str:
    return show_name(message.strip().split("\n", 1)[0], empty=say("(no message)"))
