"""run.json and exit.json: what was started, and how it ended."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..columns import SCHEMA_VERSION
from .json_text import json_file
from .layout import EXIT_JSON, EXIT_RESERVE, RUN_JSON
from .safe_files import check_file, read_file


class SchemaError(Exception):
    """A file of a run folder that cannot be read; the message names the file and the next step."""


class RunManifest(msgspec.Struct, kw_only=True):
    """run.json: written before the script starts, and again when the run is resumed: then it describes the newest attempt and
    keeps what it said of the others in ``earlier``."""

    run_id: str
    attempt: int = 1
    first_step: int = 0
    """Number of the newest attempt's first step: one more than the last that was recorded before."""
    first_part: int = 0
    """Number of its first segment: parts of lower numbers belong to earlier attempts and stay as they are."""
    first_loader: int = 0
    """Number of its first loader, which is none of an earlier attempt."""
    earlier: list["EarlierAttempt"] = []
    schema_version: int = SCHEMA_VERSION
    firstfault_version: str
    argv: list[str]
    script: str
    script_sha256: str | None = None
    cwd: str
    started_ns: int
    hostname: str
    pid: int
    python: str
    platform: str
    versions: dict[str, str] = {}
    git_commit: str | None = None
    git_dirty: bool | None = None
    world_size: int | None = None
    supervised: bool = True
    config: dict[str, Any] = {}
    options: dict[str, Any] = {}


class ExceptionRecord(msgspec.Struct, kw_only=True):
    """The exception that ended a rank. ``inputs`` are the tensors that entered the module in flight, ``locals`` those of the
    innermost frames: each {name, shape, dtype, device, min, max}."""

    type: str
    message: str
    traceback: str
    rank: int = 0
    step: int | None = None
    microbatch: int | None = None
    phase: str | None = None
    module: str | None = None
    module_class: str | None = None
    user_frame: str | None = None
    inputs: list[dict[str, Any]] = []
    locals: list[dict[str, Any]] = []


class EarlierAttempt(msgspec.Struct, kw_only=True):
    """What run.json and exit.json said of an attempt before the run was resumed; ``exit`` is null where it ended without a
    supervisor's word."""

    attempt: int
    first_step: int
    argv: list[str]
    script: str
    cwd: str
    started_ns: int
    hostname: str
    pid: int
    versions: dict[str, str] = {}
    git_commit: str | None = None
    git_dirty: bool | None = None
    options: dict[str, Any] = {}
    exit: "ExitRecord | None" = None


class LastPosition(msgspec.Struct, kw_only=True):
    """Where one rank stood when it was last heard of."""

    rank: int
    pid: int
    time_ns: int
    step: int
    microbatch: int
    phase: str
    module: str | None


class ExitRecord(msgspec.Struct, kw_only=True):
    """exit.json: how the run ended. ``status`` is one of completed, exception, signal, oom, hang."""

    status: str
    schema_version: int = SCHEMA_VERSION
    exit_code: int | None = None
    signal: int | None = None
    signal_name: str | None = None
    core_dumped: bool = False
    ended_ns: int
    exception: ExceptionRecord | None = None
    last_positions: list[LastPosition] = []
    native_stack: str | None = None
    memory_peak_bytes: int | None = None
    memory_limit_bytes: int | None = None
    oom_kills: int | None = None
    recorded_ranks: int = 0
    torch_processes: int | None = None
    """Processes that the supervisor saw with torch loaded, once a second at most; null where nobody looked."""
    note: str | None = None


_T = TypeVar("_T", RunManifest, ExitRecord)


def _read(path: Path, type_: type[_T]) -> _T:
    try:
        raw = read_file(path, path.parent)
    except OSError as e:
        raise SchemaError(f"{path}: cannot be read ({e.strerror}); check what it is and its permissions") from e
    try:
        version = msgspec.json.decode(raw, type=dict[str, Any]).get("schema_version")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise SchemaError(
            f"{path}: not valid JSON ({e}); the folder was not written by firstfault or the file is damaged"
        ) from e
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise SchemaError(
            f"{path}: written by a newer firstfault (schema {version}, this one reads up to {SCHEMA_VERSION}); upgrade firstfault"
        )
    try:
        return msgspec.json.decode(raw, type=type_)
    except (msgspec.ValidationError, RecursionError) as e:
        raise SchemaError(
            f"{path}: does not look like firstfault's ({e}); point to a folder that `firstfault run` wrote"
        ) from e


def read_manifest(run: Path) -> RunManifest:
    """run.json of a run folder. Raises SchemaError naming the file and the next step."""
    return _read(run / RUN_JSON, RunManifest)


def read_exit(run: Path) -> ExitRecord | None:
    """exit.json, None while there is none. Raises SchemaError on a damaged one."""
    path = run / EXIT_JSON
    if path.exists():
        return _read(path, ExitRecord)
    reserve = run / EXIT_RESERVE
    try:
        check_file(reserve, run)
        with reserve.open("rb") as file:
            written = file.read(1) == b"{"  # else nothing but zeros: the run is going on, or nobody could write its end
    except OSError:
        return None
    return _read(reserve, ExitRecord) if written else None


def encode_json(record: RunManifest | ExitRecord) -> bytes:
    """A record as its file holds it."""
    return json_file(record)


def write_json(path: Path, record: RunManifest | ExitRecord) -> None:
    """Write atomically: a reader sees the old file or the new one, never half of one."""
    tmp = path.with_suffix(".json.tmp")
    tmp.write_bytes(encode_json(record))
    tmp.replace(path)
