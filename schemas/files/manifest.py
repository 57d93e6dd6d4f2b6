"""run.json and exit.json: what was started, and how it ended."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..columns import SCHEMA_VERSION
from .checksums import crc_holds
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
    innermost frames, ``attributes`` plain tensors that the module holds beside its parameters and buffers: each {name, shape,
    dtype, device, min, max}."""

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
    attributes: list[dict[str, Any]] = []


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
    device_assertion: str | None = None
    """What a kernel printed when a condition of it did not hold, as `kernel: condition`; null where none did."""
    memory_peak_bytes: int | None = None
    memory_limit_bytes: int | None = None
    oom_kills: int | None = None
    recorded_ranks: int = 0
    torch_processes: int | None = None
    """Processes that the supervisor saw with torch loaded, once a second at most; null where nobody looked."""
    note: str | None = None
    cost: "SupervisorCost | None" = None


class SupervisorCost(msgspec.Struct, kw_only=True):
    """What `firstfault run` took beside the script: wall time before its start and after its end, processor time in all."""

    before_ns: int
    after_ns: int
    processor_ns: int


_T = TypeVar("_T", RunManifest, ExitRecord)


def _read(path: Path, type_: type[_T]) -> _T:
    try:
        raw = read_file(path, path.parent)
    except OSError as e:
        raise SchemaError(f"{path}: cannot be read ({e.strerror}); check what it is and its permissions") from e
    try:
        said = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise SchemaError(
            f"{path}: not valid JSON ({e}); the folder was not written by firstfault or the file is damaged"
        ) from e
    _refuse_newer(path, said)
    try:
        return msgspec.convert(said, type_)
    except (msgspec.ValidationError, RecursionError) as e:
        raise SchemaError(
            f"{path}: does not look like firstfault's ({e}); point to a folder that `firstfault run` wrote"
        ) from e


class NewerSchemaError(SchemaError):
    """A file of a newer firstfault: what it means is not known."""


def _refuse_newer(path: Path, said: dict[str, Any]) -> None:
    version = said.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"{path}: written by a newer firstfault (schema {version}, this one reads up to {SCHEMA_VERSION}); upgrade firstfault"
        )


DAMAGED_RECORD = "it is damaged: what cannot be read of it is not known, the rest is read"
CHANGED_RECORD = "it is damaged: its content is not what was written; what it says may be wrong"


def rescue(path: Path, type_: type[_T], otherwise: dict[str, Any]) -> tuple[_T, str | None]:
    """What can be read of a record, and what is wrong with the file; ``otherwise`` stands in for fields that cannot be read.

    Raises NewerSchemaError for a whole file of a newer firstfault.
    """
    why: str | None = None
    said: dict[str, Any] = {}
    try:
        raw = read_file(path, path.parent)
        try:
            said = msgspec.json.decode(raw, type=dict[str, Any])
        except UnicodeDecodeError:
            said = msgspec.json.decode(raw.decode("utf-8", "replace"), type=dict[str, Any])
        if not crc_holds(said):
            why = CHANGED_RECORD
    except OSError as e:
        why = f"cannot be read ({e.strerror})"
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        why = DAMAGED_RECORD
    if why is None:
        _refuse_newer(path, said)
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(type_):
        if field.name in said:
            try:
                fields[field.name] = msgspec.convert(said[field.name], field.type)
                continue
            except (msgspec.ValidationError, RecursionError):
                why = DAMAGED_RECORD
        if field.name in otherwise:
            fields[field.name] = otherwise[field.name]
            if field.required:
                why = DAMAGED_RECORD if why is None or field.name in said else why
    return type_(**fields), why


def rescue_manifest(run: Path) -> tuple[RunManifest, str | None]:
    """run.json as far as it can be read, and what is wrong with it. Raises NewerSchemaError."""
    unknown: dict[str, Any] = dict.fromkeys(
        ("firstfault_version", "script", "cwd", "hostname", "python", "platform"), ""
    )
    unknown |= {"run_id": run.name, "argv": [], "started_ns": 0, "pid": 0}
    return rescue(run / RUN_JSON, RunManifest, unknown)


ENDINGS = frozenset({"completed", "exception", "signal", "oom", "hang"})
"""What ``ExitRecord.status`` can be."""

UNKNOWN_END = "unknown"
"""Status of a run whose exit record cannot be read."""


def rescue_exit(run: Path) -> tuple[ExitRecord | None, Path, str | None]:
    """exit.json as far as it can be read, the file, and what is wrong with it; None while there is none. Raises
    NewerSchemaError."""
    path = _exit_path(run)
    if path is None:
        return None, run / EXIT_JSON, None
    record, why = rescue(path, ExitRecord, {"status": UNKNOWN_END, "ended_ns": 0})
    if record.status not in ENDINGS:
        record.status, why = UNKNOWN_END, why or DAMAGED_RECORD
    return record, path, why


def read_manifest(run: Path) -> RunManifest:
    """run.json of a run folder. Raises SchemaError naming the file and the next step."""
    return _read(run / RUN_JSON, RunManifest)


def read_exit(run: Path) -> ExitRecord | None:
    """exit.json, None while there is none. Raises SchemaError on a damaged one."""
    path = _exit_path(run)
    return None if path is None else _read(path, ExitRecord)


def _exit_path(run: Path) -> Path | None:
    """The file with the exit record: exit.json, or the space that was set aside for it; None while there is none."""
    path = run / EXIT_JSON
    if path.exists() or path.is_symlink():
        return path
    reserve = run / EXIT_RESERVE
    try:
        check_file(reserve, run)
        with reserve.open("rb") as file:
            written = file.read(1) == b"{"  # else nothing but zeros: the run is going on, or nobody could write its end
    except OSError:
        return None
    return reserve if written else None


def encode_json(record: RunManifest | ExitRecord) -> bytes:
    """A record as its file holds it."""
    return json_file(record)


def write_json(path: Path, record: RunManifest | ExitRecord) -> None:
    """Write atomically: a reader sees the old file or the new one, never half of one."""
    tmp = path.with_suffix(".json.tmp")
    tmp.write_bytes(encode_json(record))
    tmp.replace(path)
