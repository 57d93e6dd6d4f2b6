"""What kind of file it is, by what is in it; names are believed only where the contents could be several things."""

import json
import struct
from pathlib import Path
from typing import Literal

from ..errors import ImportFileError
from .byte_streams import ByteStream

Kind = Literal["trace", "pickle", "tensorboard", "trainer_state", "flight_recorder", "curves"]

_HEAD = 1 << 16

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
    if not head.strip():
        raise ImportFileError(f"{path}: is empty; nothing can be imported from it")
    if head[:1] == b"\x80" and head[1] <= 5:
        return "pickle"
    if (
        len(head) > 12
        and (struct.unpack("<Q", head[:8])[0] < max(size, _HEAD) or ".tfevents." in path.name)
        and b"\0" in head[:8]
    ):
        return "tensorboard"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in b"{[":
        return _kind_of_json(path, text)
    first = text.split(b"\n", 1)[0]
    if (b"\0" not in text and any(mark in first for mark in b",;\t")) or path.suffix.lower() in {".csv", ".tsv"}:
        return "curves"
    raise ImportFileError(
        f"{path}: is nothing that can be imported; known are profiler traces, CUDA memory snapshots, Flight Recorder dumps,"
        " TensorBoard event files, trainer_state.json, and curves as CSV or JSON lines"
    )


def _kind_of_json(path: Path, text: bytes) -> Kind:
    if any(mark in text for mark in _TRACE_MARKS) or (text[:1] == b"[" and b'"ph"' in text):
        return "trace"
    if b'"log_history"' in text or path.name == "trainer_state.json":
        return "trainer_state"
    line = text.split(b"\n", 1)[0]
    try:
        whole = json.loads(line)
    except ValueError:
        whole = None
    if isinstance(whole, dict) and path.suffix.lower() in {".jsonl", ".ndjson", ".log", ".txt"}:
        return "curves"
    if b'"pg_config"' in text or b'"pg_status"' in text or (b'"entries"' in text and b'"collective_seq_id"' in text):
        return "flight_recorder"
    return "curves"
