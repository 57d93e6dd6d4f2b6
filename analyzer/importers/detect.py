"""What kind of file it is, by what is in it; names are believed only where the contents could be several things."""

import json
import re
import struct
from pathlib import Path
from typing import Literal

from ..errors import ImportFileError
from .byte_streams import ByteStream, encoding_of
from .records import number_of
from .text_logs import known_format, log_lines

Kind = Literal[
    "trace", "pickle", "tensorboard", "wandb", "trainer_state", "flight_recorder", "curves", "text_log", "mlflow",
    "execution_trace", "memory_timeline",
]  # fmt: skip

_HEAD = 1 << 16
_FEW = 200
"""Lines of a head that are looked at."""

_TIMELINE = re.compile(rb"\[\[(?:-1|\d{9,}), ?(?:\d{9,}|[1-4], ?-?\d+, ?\d\])")
"""How a memory timeline begins: times, or time, action, bytes and category."""

_OTHER_TOOLS = {
    b'"rocprofiler-sdk-tool"': "a result of rocprof",
    b'"workload_graph"': "a simulator's workload graph",
}
"""Keys of JSON files of other tools, and what they are."""

_DICTIONARY = re.compile(r"\{'|\[(?:\d|rank|default|INFO|20\d\d|titan)")
"""How a log begins that is no JSON although its first character is a bracket."""

_TRACE_MARKS = (b'"traceEvents"', b'"deviceProperties"', b'"distributedInfo"')
"""Keys of a profiler trace; what stands before its events may be longer than what is looked at."""


def kind_of(path: Path) -> Kind:
    """The kind of a file. Raises ImportFileError where it can be none of those that are known, or cannot be read."""
    try:
        with ByteStream(path) as stream:
            head = stream.read(_HEAD)
            size = path.stat().st_size
    except OSError as e:
        raise ImportFileError(f"{path}: cannot be read ({e.strerror}); check the path and its permissions") from e
    _refuse_empty(path, head)
    if head[:2] == b"\x1f\x8b":
        raise ImportFileError(f"{path}: is packed twice; unpack it once, as with gunzip, and import what comes out")
    if head[:1] == b"\x80" and head[1] <= 5:
        return "pickle"
    if (
        len(head) > 12
        and (struct.unpack("<Q", head[:8])[0] < max(size, _HEAD) or ".tfevents." in path.name)
        and b"\0" in head[:8]
    ):
        return "tensorboard"
    if head[:4] == b":W&B":
        return "wandb"
    text = head.decode(encoding_of(head), "replace").lstrip(" \t\r\n").rstrip("\0")
    if text[:1] in {"{", "["} and not _DICTIONARY.match(text):
        kind = _kind_of_json(path, text.encode())
        if kind != "curves" or known_format(text.splitlines()[:_FEW]) is None:
            return kind
    _refuse_picture(path, text)
    if "\0" not in text:
        if known_format(log_lines(path)) is not None:
            return "text_log"
        if _is_table(path, text):
            return "curves"
        if known_format(log_lines(path), any_script=True) is not None:
            return "text_log"
    raise ImportFileError(
        f"{path}: is nothing that can be imported; known are profiler traces, CUDA memory snapshots, Flight Recorder dumps,"
        " TensorBoard event files, W&B's .wandb files, trainer_state.json, curves as CSV or JSON lines, and text logs that name"
        " a step and a loss"
    )


def _refuse_empty(path: Path, head: bytes) -> None:
    if not head.strip():
        raise ImportFileError(f"{path}: is empty; nothing can be imported from it")
    if not head.strip(b"\0"):
        raise ImportFileError(
            f"{path}: begins with {len(head)} zeros, as no file that is known does; copy it once more"
        )


def _refuse_picture(path: Path, text: str) -> None:
    if "<img src='data:image/png;base64," in text[:2000] and "Memory Timeline" in text[:2000]:
        raise ImportFileError(
            f"{path}: is a memory timeline that holds nothing but a picture; export it once more as .json or .raw"
        )


def _is_table(path: Path, text: str) -> bool:
    """Whether rows have columns: by the name of the file, or since the first rows have the same number of cells."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")][:_FEW]
    if path.suffix.lower() in {".csv", ".tsv"} or re.search(r'\{\s*"', lines[0] if lines else ""):
        return True
    mark = max(",;\t", key=lines[0].count) if lines else ","
    split = [line.split(mark) if mark in lines[0] else line.split() for line in lines[:-1] or lines]
    cells = {len(row) for row in split}
    rows = split[1:] if len(split) > 1 else split
    return len(cells) == 1 and all(any(number_of(cell) is not None for cell in row) for row in rows)


def _kind_of_json(path: Path, text: bytes) -> Kind:
    if any(mark in text for mark in _TRACE_MARKS) or (text[:1] == b"[" and b'"ph"' in text):
        return "trace"
    for mark, name in _OTHER_TOOLS.items():
        if mark in text:
            raise ImportFileError(
                f"{path}: is {name}, which is not read; import the trace of torch.profiler of the same run"
            )
    if b'"nodes"' in text and (b'"ctrl_deps"' in text or b'"fw_parent"' in text):
        return "execution_trace"
    if _TIMELINE.match(text):
        return "memory_timeline"
    if b'"log_history"' in text or path.name == "trainer_state.json":
        return "trainer_state"
    line = text.split(b"\n", 1)[0]
    try:
        whole = json.loads(line)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict) and path.suffix.lower() in {".jsonl", ".ndjson", ".log", ".txt"}:
        return "curves"
    if b'"pg_config"' in text or b'"pg_status"' in text or (b'"entries"' in text and b'"collective_seq_id"' in text):
        return "flight_recorder"
    return "curves"
