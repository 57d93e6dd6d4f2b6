"""`firstfault run --resume RUN`: the same run goes on in the same folder as a new attempt.

Steps and segments are numbered on after those that are there, so earlier parts are never touched. What an attempt keeps
outside the tables (exit record, breadcrumbs, stacks, the tail of its output) moves to ``attempts/<number>``. The order makes
it safe to be cut off anywhere: first the journal becomes parts, then the files move, and run.json is written last; until then
the folder reads as the earlier attempt without a word on its end, and can be resumed again.
"""

import contextlib
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil

from ...schemas import (
    TABLES,
    EarlierAttempt,
    ExitRecord,
    RunManifest,
    SchemaError,
    read_breadcrumb,
    read_exit,
    read_manifest,
    write_json,
)
from ...schemas.files.layout import (
    CHECKSUMS_JSON,
    EXIT_JSON,
    EXIT_RESERVE,
    JOURNAL,
    OUTPUT_LOG,
    PROCESSES,
    RUN_JSON,
    attempt_folder,
    breadcrumb_path,
    exception_paths,
    native_stack_path,
    parts,
    segments,
    unrecorded_path,
    written_path,
)
from ...schemas.files.step_values import STEP_VALUES
from ..base.errors import CompactionError, RecorderError
from .compaction import compact
from .journal import JournalWriter
from .run_folder import describe_start
from .segments import read_rows, rows_of_counted_steps

STILL_S = 60.0
"""A run on another host whose journal changed within this time is taken to be going on."""


def resume_run(run: Path, *, argv: list[str], script: str, options: dict[str, Any] | None = None) -> Path:
    """Make the folder of an ended run ready for another attempt; returns its absolute path.

    Raises RecorderError where the folder is none, its run is still going, or it cannot be written.
    """
    run = run.absolute()
    try:
        manifest = read_manifest(run)
        ended = read_exit(run)
    except SchemaError as e:
        raise RecorderError(f"--resume: {e}") from e
    _refuse_if_going(run, manifest, ended)
    try:
        compact(run, finished=True)
    except CompactionError as e:
        raise RecorderError(f"--resume {run}: what was recorded before must be in parts first: {e}") from e
    left = segments(run)
    if left:
        raise RecorderError(f"--resume {run}: {left[0][3]} is still being written; wait until that process has ended")
    try:
        _write_what_was_only_counted(run)
    except (OSError, CompactionError) as e:
        raise RecorderError(f"--resume {run}: steps that were only counted cannot be written: {e}") from e
    kept = attempt_folder(run, manifest.attempt)
    try:
        ended = _set_aside(run, kept) or ended
        now = describe_start(manifest.run_id, argv=argv, script=script, config=manifest.config, options=options)
        now.attempt = manifest.attempt + 1
        now.first_step = max(_after(run, table, "step", manifest.first_step) for table in ("steps", "unwatched_steps"))
        now.first_loader = _after(run, "batches", "loader_id", manifest.first_loader)
        now.first_part = max((p.last + 1 for table in TABLES for p in parts(run, table)), default=0)
        now.earlier = [*manifest.earlier, _earlier(manifest, ended)]
        write_json(run / RUN_JSON, now)
    except OSError as e:
        raise RecorderError(
            f"--resume {run}: cannot be written ({e.strerror}); record into a new folder with --out"
        ) from e
    return run


def _refuse_if_going(run: Path, manifest: RunManifest, ended: ExitRecord | None) -> None:
    if manifest.hostname != socket.gethostname():
        newest = max((path.stat().st_mtime for *_, path in segments(run)), default=0.0)
        if ended is None and time.time() - newest < STILL_S:
            raise RecorderError(
                f"--resume {run}: it is still being recorded on {manifest.hostname}; end that run first"
            )
        return
    positions = [read_breadcrumb(path) for path in breadcrumb_path(run, 0).parent.glob("*.bin")]
    pids = {p.pid for p in positions if p is not None} | ({manifest.pid} if ended is None else set())
    for pid in sorted(pids):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            # a later process of the same number is another one
            if process.status() != psutil.STATUS_ZOMBIE and _began_in_time(process, run, manifest):
                raise RecorderError(f"--resume {run}: process {pid} is still recording into it; end that run first")


def _began_in_time(process: psutil.Process, run: Path, manifest: RunManifest) -> bool:
    """Whether a process is old enough to be the one that recorded: older than the last word that was written."""
    words = [path.stat().st_mtime for *_, path in segments(run)] + [manifest.started_ns / 1e9 + STILL_S]
    return process.create_time() < max(words)


def _write_what_was_only_counted(run: Path) -> None:
    """Write the rows of steps that a killed process had made or counted, and not written: its mapped files go aside."""
    written = False
    for rank, rows in rows_of_counted_steps(run).items():
        first = max((p.last + 1 for table in TABLES for p in parts(run, table)), default=0)
        journal = JournalWriter(run, rank, first)
        journal.append({STEP_VALUES: {"unwatched_steps": rows}})
        journal.close()
        written = True
    if written:
        compact(run, finished=True)


def _set_aside(run: Path, kept: Path) -> ExitRecord | None:
    """Move what belongs to the attempt that has ended; its exit record, also where an earlier try had moved it."""
    (run / CHECKSUMS_JSON).unlink(missing_ok=True)  # it is of files that go elsewhere now, or grow
    kept.mkdir(parents=True, exist_ok=True)
    folders = [
        path.parent.name for path in (breadcrumb_path(run, 0), native_stack_path(run, 0), unrecorded_path(run, 0, 0))
    ]
    names = [EXIT_JSON, EXIT_RESERVE, OUTPUT_LOG, PROCESSES, *folders]
    for path in (*(run / name for name in names), *exception_paths(run)):
        if path.exists() and not (kept / path.name).exists():
            path.rename(kept / path.name)
    journal = run / JOURNAL
    if journal.is_dir():
        for folder in (*journal.iterdir(), journal):
            (folder / written_path(run, 0).name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()  # empty: its segments have become parts
        if journal.exists():
            journal.rename(kept / JOURNAL)  # what else lay there is not ours to remove
    with contextlib.suppress(SchemaError):
        return read_exit(kept)
    return None


def _after(run: Path, table: str, column: str, least: int) -> int:
    """One more than the largest value recorded so far."""
    values = [v for v in read_rows(run, table, [column])[column].to_pylist() if v is not None]
    return max([least - 1, *values]) + 1


def _earlier(manifest: RunManifest, ended: ExitRecord | None) -> EarlierAttempt:
    said: dict[str, Any] = msgspec.to_builtins(manifest)
    known = {k: v for k, v in said.items() if k in EarlierAttempt.__struct_fields__}
    return msgspec.convert(known | {"exit": msgspec.to_builtins(ended) if ended else None}, EarlierAttempt)
