"""Builds exit.json from what a dead run left: wait status, exception files, breadcrumbs, native stacks, memory."""

import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...schemas import STOPPED, ExceptionRecord, ExitRecord, LastPosition, captures_of, read_breadcrumb
from ...schemas.files.layout import (
    JOURNAL,
    OUTPUT_LOG,
    SUPERVISOR_RANK,
    breadcrumb_path,
    exception_paths,
    native_stack_path,
    rank_of,
    unrecorded_path,
)
from ..storage.segments import module_names

OOM_USE = 0.97
"""SIGKILL with this share of the memory limit in use is put down to the out-of-memory killer even where the kernel
shows no counter (the host's own killer, a group that cannot be read): a second passes between the last sample and
the kill."""

OOM_EXCEPTIONS = ("OutOfMemoryError",)
"""torch's exception for a device without memory; its qualified name differs between versions."""


_ASSERTION = re.compile(
    rb"^\S+:\d+: ([^\n]{1,200}?): block: \[[^\n]{1,80}Assertion `([^\n]{1,200})` failed", re.MULTILINE
)
"""A line that CUDA prints for each thread whose assertion failed (CUDA C++ Programming Guide, Assertion)."""


@dataclass(frozen=True, slots=True)
class MemoryWitness:
    """What the supervisor saw of memory: use and limit in its last sample, the peak in bytes, kills while the script
    ran."""

    used_bytes: int | None = None
    limit_bytes: int | None = None
    peak_bytes: int | None = None
    oom_kills: int | None = None


def build_exit(run: Path, wait_status: int, memory: MemoryWitness, hang: str | None = None) -> ExitRecord:
    """The exit record of a script that ended with ``wait_status`` (as os.waitpid gives it).

    ``hang`` is the supervisor's word that nothing had moved for long when it ended: whoever ended it then, by a signal
    or by Ctrl-C, did so because it hung."""
    record = _ending(run, wait_status, memory)
    interrupted = record.exception is not None and record.exception.type == "KeyboardInterrupt"
    if hang is not None and record.status in {"signal", "exception"} and (record.signal is not None or interrupted):
        record.status = "hang"
        record.note = f"{hang}, then ended by {record.signal_name or 'KeyboardInterrupt'}"
    unrecorded = len(list(unrecorded_path(run, 0, 0).parent.glob("*")))
    if unrecorded:
        others = (
            f"{unrecorded} further process{'es' * (unrecorded > 1)} trained as a rank that was recorded already, and "
            f"{'are' if unrecorded > 1 else 'is'} not in this recording"
        )
        record.note = f"{record.note}; {others}" if record.note else others
    return record


def _ending(run: Path, wait_status: int, memory: MemoryWitness) -> ExitRecord:
    ranks = recorded_ranks(run)
    exceptions = read_exceptions(run)
    exception = exceptions[0] if exceptions else None
    record = ExitRecord(
        status="completed",
        ended_ns=time.time_ns(),
        last_positions=last_positions(run),
        native_stack=_native_stacks(run),
        device_assertion=_device_assertion(run),
        memory_peak_bytes=memory.peak_bytes,
        memory_limit_bytes=memory.limit_bytes,
        oom_kills=memory.oom_kills,
        recorded_ranks=len(ranks),
    )
    if os.WIFSIGNALED(wait_status):
        number = os.WTERMSIG(wait_status)
        record.status, record.signal, record.signal_name = "signal", number, signal_name(number)
        record.core_dumped = os.WCOREDUMP(wait_status)
        record.exception = exception
        if number == signal.SIGKILL:
            record.note = _why_killed(memory)
            record.status = "oom" if record.note else "signal"
        return record
    record.exit_code = os.waitstatus_to_exitcode(wait_status)
    if record.exit_code == 0:
        if exception is not None:
            if exception.step is not None:
                record.exception = exception  # a process that trained died of it, and its parent did not look
            record.note = f"rank {exception.rank} raised {exception.type}, yet the script ended with exit status 0"
        return record
    record.status = "exception"
    stopped = next((meta for _, meta in captures_of(run) if meta.stopped), None)
    if record.exit_code == STOPPED and exception is None and stopped is not None:
        record.note = f"stopped by --on-nonfinite stop; weights and optimizers are in captures/{stopped.capture}"
        record.exception = ExceptionRecord(
            type="SystemExit",
            message=f"stopped by --on-nonfinite stop at step {stopped.step}: {stopped.reason} not finite",
            traceback="",
            rank=stopped.rank,
            step=stopped.step,
            microbatch=stopped.microbatch,
            phase="loss" if stopped.reason == "loss" else "backward",
        )
        return record
    record.exception = exception or ExceptionRecord(
        type="SystemExit",
        message=f"the script ended with exit status {record.exit_code} without an unhandled exception",
        traceback="",
    )
    if record.exception.type.rpartition(".")[2] in OOM_EXCEPTIONS:
        record.status = "oom"
    return record


def _device_assertion(run: Path) -> str | None:
    """The first assertion of a kernel in what is kept of the script's output."""
    try:
        found = _ASSERTION.search((run / OUTPUT_LOG).read_bytes())
    except OSError:
        return None
    return b": ".join(found.groups()).decode(errors="replace") if found else None


def signal_name(number: int) -> str:
    """Such as SIGSEGV; real-time signals have no name of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def read_exceptions(run: Path) -> list[ExceptionRecord]:
    """What ended the ranks, the first to die in front: the others often die of its absence."""
    found: list[tuple[int, ExceptionRecord]] = []
    for path in exception_paths(run):
        try:
            raw = path.read_bytes()
            found.append((path.stat().st_mtime_ns, msgspec.json.decode(raw, type=ExceptionRecord)))
        except (OSError, msgspec.MsgspecError):
            continue  # cut while it was written: the rank died twice, and the wait status tells the rest
    return [record for _, record in sorted(found, key=lambda f: (f[0], f[1].rank))]


def last_positions(run: Path) -> list[LastPosition]:
    """Where each rank stood when it was last heard of, by its breadcrumb."""
    names = module_names(run)
    found: list[LastPosition] = []
    for path in sorted(breadcrumb_path(run, 0).parent.glob("*.bin")):
        rank = rank_of(path.stem)
        position = read_breadcrumb(path)
        if rank is None or position is None:
            continue
        found.append(
            LastPosition(
                rank=rank,
                pid=position.pid,
                time_ns=position.time_ns,
                step=position.step,
                microbatch=position.microbatch,
                phase=position.phase.name.lower(),
                module=names.get((rank, position.module_id)),
            )
        )
    return found


def recorded_ranks(run: Path) -> set[int]:
    """Ranks that wrote anything: a journal folder or a breadcrumb."""
    folders = [p.name for p in (run / JOURNAL).glob("*")] + [
        p.stem for p in breadcrumb_path(run, 0).parent.glob("*.bin")
    ]
    return {rank for rank in map(rank_of, folders) if rank is not None and rank != SUPERVISOR_RANK}


def _native_stacks(run: Path) -> str | None:
    texts: list[str] = []
    for path in sorted(native_stack_path(run, 0).parent.glob("*.txt")):
        try:
            text = path.read_text("utf-8", "replace").strip()
        except OSError:
            continue
        if text:
            texts.append(f"{path.stem}\n{text}")
    return "\n\n".join(texts) or None


def _why_killed(memory: MemoryWitness) -> str | None:
    if memory.oom_kills:
        return (
            f"the kernel's out-of-memory killer struck {memory.oom_kills} time(s) in the control group during the run"
        )
    if memory.used_bytes and memory.limit_bytes and memory.used_bytes >= OOM_USE * memory.limit_bytes:
        share = memory.used_bytes / memory.limit_bytes
        return f"{share:.1%} of the memory limit was in use in the last sample before the kill"
    return None
