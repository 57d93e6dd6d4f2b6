"""When the steps of a trace began and ended, by the profiler's own annotations, found ahead of the events."""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from .byte_streams import ByteStream
from .event_columns import row_of

_SEAM = 4000
"""Bytes that an annotation of a step does not exceed."""
_READ = 1 << 20
_MARK = b'"ProfilerStep#'
_NAME = re.compile(r"ProfilerStep#(\d{1,18})")
_BASE = b'"baseTimeNanoseconds"'
_BASE_VALUE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\s*[,}]')
_BRACES = 12
"""Opening braces ahead of a name that may be the annotation's: its args may stand before its name."""


class StepSpans:
    """When each step of the trace began and ended."""

    def __init__(self) -> None:
        self.spans: dict[int, tuple[int, int]] = {}

    def add(self, step: int, start_ns: int, end_ns: int) -> None:
        """A span of this step; several threads may have one."""
        known = self.spans.get(step)
        self.spans[step] = (start_ns, end_ns) if known is None else (min(known[0], start_ns), max(known[1], end_ns))

    def moved(self, by_ns: int) -> None:
        """Count all moments from another one."""
        self.spans = {step: (start + by_ns, end + by_ns) for step, (start, end) in self.spans.items()}

    def steps_at(self, times: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Step during which each of these moments lies; null outside all of them."""
        if not self.spans:
            return pa.nulls(len(times), pa.int64())
        ordered = sorted((span, step) for step, span in self.spans.items())
        starts, ends, steps = (
            np.array(all_of, np.int64) for all_of in zip(*((*s, n) for s, n in ordered), strict=True)
        )
        moments = times.fill_null(-(2**62)).to_numpy()
        index = np.searchsorted(starts, moments, side="right") - 1
        inside = (index >= 0) & (moments < ends[index])
        return pa.array(steps[index], mask=~inside)


def find_steps(stream: ByteStream, *, with_base: bool = True) -> tuple[StepSpans, int | None]:
    """Steps of a trace, counted from no base, and, if it is asked for, the last `baseTimeNanoseconds` that stands in it.

    Spans on the device are those of steps only where the host has none: they begin when the device comes to the work.
    """
    host, device = StepSpans(), StepSpans()
    base: int | None = None
    for text, at in _occurrences(stream, (_MARK, _BASE) if with_base else (_MARK,)):
        if text.startswith(_BASE, at):
            found = _BASE_VALUE.match(text, at)
            base = int(found[1]) if found else base
            continue
        event = _event_round(text, at)
        name = _NAME.fullmatch(event["name"]) if event is not None else None
        if event is None or name is None:
            continue
        row = row_of(event, 0)
        start, length = row.get("ts_ns"), row.get("dur_ns")
        if start is not None and length is not None and length >= 0:
            spans = device if str(event.get("cat", "")).startswith("gpu") else host
            spans.add(int(name[1]), start, start + length)
    return host if host.spans else device, base


def _occurrences(stream: ByteStream, marks: tuple[bytes, ...]) -> Iterator[tuple[bytearray, int]]:
    """Places of these marks, each with the text around it."""
    buffer, held, looked = bytearray(2 * _SEAM + _READ), 0, 0
    while True:
        count = stream.fill(memoryview(buffer)[held:])
        held += count
        ended = held < len(buffer)
        until = held if ended else held - _SEAM
        for mark in marks:
            at = buffer.find(mark, looked, until)
            while at >= 0:
                yield buffer, at
                at = buffer.find(mark, at + 1, until)
        if ended:
            return
        looked = until - len(_BASE) + 1
        kept = min(held, 2 * _SEAM)
        buffer[:kept] = buffer[held - kept : held]
        looked, held = looked - (held - kept), kept


def _event_round(text: bytearray, at: int) -> dict[str, Any] | None:
    """The event whose name stands here, wherever among its keys."""
    begin = at
    for _ in range(_BRACES):
        begin = text.rfind(b"{", max(at - _SEAM, 0), begin)
        if begin < 0:
            return None
        try:
            found, end = json.JSONDecoder().raw_decode(text[begin : at + _SEAM].decode("latin-1"))
        except (ValueError, RecursionError):
            continue
        if "ts" in found and isinstance(found.get("name"), str) and begin + end > at:
            return found
    return None
