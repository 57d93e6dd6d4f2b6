"""The journal: Arrow IPC streams, appended once a step, left to the kernel's page cache. One holds the rows of a step as one
value for all tables; a table with many rows a step has a stream of its own.

What ``os.write`` has taken survives any death of the process. Nothing is flushed to disk here and nothing is compressed:
turning finished segments into Parquet is the work of compaction.py, outside the training step.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from ...schemas import TABLES
from ...schemas.files.layout import segment_path
from ...schemas.files.step_values import STEP_VALUES, STEP_VALUES_SCHEMA

SEGMENT_BYTES = 64 * 2**20
"""A segment is closed at this size: about five minutes of a 280-tensor model at ten steps a second."""


def segment_bytes(disk_limit_bytes: int | None, ranks: int) -> int:
    """Size at which segments are closed: all ranks' together are to be a small part of the space that there is."""
    return (
        SEGMENT_BYTES if disk_limit_bytes is None else min(SEGMENT_BYTES, max(2**20, disk_limit_bytes // 16 // ranks))
    )


class JournalWriter:
    """Owner of one rank's segments, numbered from ``first`` on. All tables rotate together, so segments of one index hold
    one range of steps."""

    def __init__(self, run: Path, rank: int, first: int = 0, most_bytes: int = SEGMENT_BYTES) -> None:
        self._run = run
        self._rank = rank
        self._index = first
        self._bytes = 0
        self._most_bytes = most_bytes
        self._files: dict[str, int] = {}
        segment_path(run, rank, "steps", first).parent.mkdir(parents=True, exist_ok=True)

    def append(self, batches: Mapping[str, pa.RecordBatch | bytes]) -> int:
        """Append one batch per stream (bytes: as a message), in the given order, each with one write. Returns the bytes written.

        Raises OSError when the disk does not take them; a batch is then cut at its start again, so that the stream stays
        readable and the next append can go on.
        """
        written = 0
        for name, batch in batches.items():
            fd = self._files.get(name)
            if fd is None:
                fd = self._open(name)
            written += self._write(fd, batch if isinstance(batch, bytes) else batch.serialize())
        self._bytes += written
        if self._bytes >= self._most_bytes:
            self.rotate()
        return written

    def rotate(self) -> None:
        """Close the segments; the next append begins new ones."""
        self.close()
        self._index += 1
        self._bytes = 0

    def sync(self) -> None:
        """Have the open segments reach the disk: for what must not be lost even when the power is."""
        for fd in self._files.values():
            os.fsync(fd)

    def close(self) -> None:
        """Close all files. The writer can be used again."""
        for fd in self._files.values():
            os.close(fd)
        self._files.clear()

    def _open(self, table: str) -> int:
        path = segment_path(self._run, self._rank, table, self._index)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(fd).st_size == 0:
                schema = STEP_VALUES_SCHEMA if table == STEP_VALUES else TABLES[table].schema
                self._write(fd, schema.serialize())
        except OSError:
            os.close(fd)  # what comes next must not stand in a stream without a schema
            raise
        self._files[table] = fd
        return fd

    @staticmethod
    def _write(fd: int, message: bytes | pa.Buffer) -> int:
        size = len(message)
        done = os.write(fd, message)
        if done == size:
            return size
        view = memoryview(message)
        try:
            while done < size:
                done += os.write(fd, view[done:])
        except OSError:
            os.ftruncate(fd, os.fstat(fd).st_size - done)
            raise
        return size
