"""Keep a run folder within ``--disk-limit`` by thinning statistics of tensors where nothing happened.

A part of tensor_stats is rewritten with every 8th step, then every 64th, then every 512th, then none. The oldest part of the
least thinned is first, until the folder has a tenth of its limit to spare. ``keep`` steps stay whole at the start and at the
end of the run, and on both sides of what happened: an event, a skipped step, a loss or gradient norm that became non-finite or
jumped. All other tables stay as they are.

What was removed is in table `thinned`, and is on the disk before the part is replaced: a reader may believe for a moment that
less is there than is, never that all is there. Parts are replaced as they are written, whole or not at all.
"""

import math
import os
import statistics
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas.files.layout import Part, parts
from ...schemas.files.parts import THINNED_KEY, write_part
from ...schemas.files.step_values import STEP_VALUES
from .journal import JournalWriter
from .segments import read_rows

LEVELS = (1, 8, 64, 512, 0)
"""Kept steps are those that the number divides: powers of two, as the recorder's own intervals are, so that the steps that
are kept are steps that were measured."""

SPARE = 0.9
"""Share of the limit that thinning stops at."""

_BORING = frozenset({"attached", "model-found", "optimizer-found", "seeded", "checkpoint-saved", "detail-thinned"})
_MOST_OF_A_KIND = 20
"""An event that is more frequent than this is a habit of the script, and marks nothing."""
_MOST_HAPPENINGS = 50
_PAST = 50
_JUMP = 4.0
"""Times the median of the steps before: what may be wanted later, which need not be a fault."""

Stretch = tuple[int, int]


def folder_bytes(run: Path) -> int:
    """Size of all files of a run folder, in bytes."""
    total = 0
    for folder, _, names in os.walk(run):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_size  # noqa: PTH116, PTH118 - thousands of them
            except FileNotFoundError:
                continue
    return total


class Retention:
    """Thins one run folder; ``say`` is told once when the limit cannot be kept."""

    def __init__(
        self, run: Path, limit: int, keep: int, journal: Callable[[], JournalWriter], say: Callable[[str], None]
    ) -> None:
        self._run = run
        self._limit = limit
        self._keep = keep
        self._journal = journal
        self._say = say
        self._said = False

    def enforce(self, *, first_part: int = 0) -> int:
        """Thin parts from number ``first_part`` on while the folder is too large; returns the rows removed. Raises OSError,
        with nothing lost but what was to be removed."""
        size = folder_bytes(self._run)
        if size <= self._limit:
            return 0
        removed = 0
        whole: dict[int, list[Stretch]] = {}
        for level in range(1, len(LEVELS)):
            for part in parts(self._run, "tensor_stats"):
                if part.first < first_part or _level_of(part) >= level:
                    continue
                if part.rank not in whole:
                    whole[part.rank] = self.stretches_to_keep(part.rank)
                before = part.path.stat().st_size
                removed += self._thin(part, level, whole[part.rank])
                size += part.path.stat().st_size - before
                if size <= SPARE * self._limit:
                    return removed
        if size > self._limit and not self._said:
            self._said = True
            self._say(
                f"[disk-limit] the run folder takes {size / 1e6:.0f} MB and everything that may be thinned has been;"
                " recording goes on beyond the limit"
            )
        return removed

    def stretches_to_keep(self, rank: int) -> list[Stretch]:
        """Steps of a rank that stay whole: (first, last) in order, apart from each other."""
        columns = ["rank", "step", "loss", "grad_norm", "skipped_by_scaler"]
        rows = [r for r in read_rows(self._run, "steps", columns).to_pylist() if r["rank"] == rank]
        if not rows:
            return []
        rows.sort(key=lambda r: r["step"])
        marks = [*_happened(rows), *self._events(rank)]
        if len(marks) > _MOST_HAPPENINGS:  # the first tell how it began, the last how it ended
            marks = sorted(marks)
            marks = marks[: _MOST_HAPPENINGS // 2] + marks[-_MOST_HAPPENINGS // 2 :]
        first, last, keep = rows[0]["step"], rows[-1]["step"], self._keep
        wanted = [(first, first + keep - 1), (last - keep + 1, last), *((s - keep, s + keep) for s in marks)]
        return _joined(wanted)

    def _events(self, rank: int) -> list[int]:
        rows = read_rows(self._run, "events", ["rank", "step", "event"]).to_pylist()
        of: dict[str, list[int]] = {}
        for row in rows:
            if row["rank"] == rank and row["event"] not in _BORING and row["step"] is not None:
                of.setdefault(row["event"], []).append(row["step"])
        return [step for steps in of.values() if len(steps) <= _MOST_OF_A_KIND for step in steps]

    def _thin(self, part: Part, level: int, whole: list[Stretch]) -> int:
        every = LEVELS[level]
        try:
            with pq.ParquetFile(part.path) as file:
                table = file.read(use_threads=False)
        except pa.ArrowException:
            return 0  # damaged inside: for the reader to report
        steps: list[int] = table["step"].to_pylist()
        starts = [a for a, _ in whole]

        def kept(step: int) -> bool:
            index = bisect_right(starts, step) - 1
            return (index >= 0 and step <= whole[index][1]) or (every > 0 and step % every == 0)

        keep_of = {step: kept(step) for step in sorted(set(steps))}
        mask = pa.array([keep_of[s] for s in steps], pa.bool_())
        rows = table.filter(mask)
        gone = table.num_rows - rows.num_rows
        if gone:
            self._log_thinning(part.rank, _gaps(whole, min(keep_of), max(keep_of)), every, gone)
        metadata: dict[bytes, bytes] = {**(table.schema.metadata or {}), THINNED_KEY: str(every).encode()}
        write_part(part.path, "tensor_stats", rows, metadata)
        return gone

    def _log_thinning(self, rank: int, gaps: list[Stretch], every: int, gone: int) -> None:
        now = time.time_ns()
        said: list[dict[str, Any]] = [
            {
                "rank": rank,
                "time_ns": now,
                "first_step": a,
                "last_step": b,
                "every": every or None,
                "rows": gone if i == 0 else 0,
            }
            for i, (a, b) in enumerate(gaps)
        ]
        left = f"every {every}th step" if every else "no step"
        event = {
            "rank": rank,
            "time_ns": now,
            "step": gaps[-1][1],
            "event": "detail-thinned",
            "message": f"to save space {left} of {gaps[0][0]} to {gaps[-1][1]} was kept in tensor_stats, beside"
            f" {self._keep} around what happened",
        }
        journal = self._journal()
        journal.append({STEP_VALUES: {"thinned": said, "events": [event]}})
        journal.sync()


def _level_of(part: Part) -> int:
    try:
        with pq.ParquetFile(part.path) as file:
            every = int((file.schema_arrow.metadata or {}).get(THINNED_KEY, b"1"))
    except (OSError, pa.ArrowException):
        return len(LEVELS)  # damaged: for the reader to report
    return LEVELS.index(every) if every in LEVELS else 0


def _happened(rows: list[dict[str, Any]]) -> Iterable[int]:
    """Steps at which loss or gradient norm turned bad: non-finite, or many times what they had been; and skipped steps."""
    past: dict[str, deque[float]] = {"loss": deque(maxlen=_PAST), "grad_norm": deque(maxlen=_PAST)}
    was_bad = False
    for row in rows:
        bad = bool(row["skipped_by_scaler"])
        for name, values in past.items():
            value = row[name]
            if value is None:
                continue
            if not math.isfinite(value):
                bad = True
                continue
            usual = statistics.median(values) if len(values) == _PAST else math.inf
            bad = bad or abs(value) > _JUMP * abs(usual) > 0
            values.append(value)
        if bad and not was_bad:
            yield row["step"]
        was_bad = bad


def _joined(stretches: list[Stretch]) -> list[Stretch]:
    joined: list[Stretch] = []
    for a, b in sorted(stretches):
        if joined and a <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(b, joined[-1][1]))
        else:
            joined.append((a, b))
    return joined


def _gaps(whole: list[Stretch], first: int, last: int) -> list[Stretch]:
    """What lies between the stretches, from ``first`` to ``last``."""
    gaps: list[Stretch] = []
    at = first
    for a, b in whole:
        if a > at:
            gaps.append((at, min(a - 1, last)))
        at = max(at, b + 1)
        if at > last:
            return gaps
    gaps.append((at, last))
    return gaps
