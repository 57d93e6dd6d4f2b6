"""Whether calls on one thread overlap without one lying inside the other, told while events pass by in the order of the file.

Sorting a million events for this question would take as long as reading them, and the profiler writes those of a thread in order.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HOST = ("cpu_op", "python_function", "user_annotation", "cuda_runtime", "cuda_driver")
"""Categories of calls on the host: each lies wholly inside another or outside of it."""

SLACK_NS = 2000
"""Clocks of host and device, and rounding to whole nanoseconds, may disagree by so much."""

_LONG_AGO = -(1 << 62)

_Numbers = npt.NDArray[np.int64]


class Nesting:
    """Looks at one piece after the other. ``ordered`` turns False, and nothing more is known, at the first event that begins
    before another of its thread that stands ahead of it."""

    def __init__(self) -> None:
        self.ordered = True
        self.overlapping = 0
        self.first: int | None = None
        """event_id of the first that overlaps."""
        self._before: dict[tuple[object, ...], tuple[int, int, int]] = {}
        """(pid, tid) → of the last event so far: begin and length, and the latest end of all, in ns."""

    def look(self, rows: pa.Table) -> None:
        """The next events: columns ph, cat, pid, tid, ts_ns, dur_ns and event_id are used."""
        if not self.ordered:
            return
        kinds, pids, tids = (_Texts(rows.column(name)) for name in ("cat", "pid", "tid"))
        begin, length, event_id = (
            rows.column(name).fill_null(-1).to_numpy() for name in ("ts_ns", "dur_ns", "event_id")
        )
        calls = np.flatnonzero(
            _Texts(rows.column("ph")).among(("X",))
            & kinds.among(HOST)
            & (length >= 0)
            & rows.column("ts_ns").is_valid().to_numpy()
        )
        threads = (pids.codes[calls] * len(tids.texts) + tids.codes[calls]).astype(np.int64)
        for thread in np.unique(threads).tolist():
            pid, tid = divmod(thread, len(tids.texts))
            at = calls[threads == thread]
            self._compare_with_last((pids.texts[pid], tids.texts[tid]), begin[at], length[at], event_id[at])

    def _compare_with_last(
        self, thread: tuple[object, ...], begin: _Numbers, length: _Numbers, event_id: _Numbers
    ) -> None:
        last_begin, last_length, latest = self._before.get(thread, (_LONG_AGO, 0, _LONG_AGO))
        before, before_length = _after(last_begin, begin), _after(last_length, length)
        end = begin + length
        until = np.maximum.accumulate(_after(latest, end))
        if ((begin < before) | ((begin == before) & (length > before_length))).any():
            self.ordered = False
            return
        found = event_id[(begin < until - SLACK_NS) & (end > until + SLACK_NS)]
        self.overlapping += len(found)
        if len(found) and (self.first is None or found[0] < self.first):
            self.first = int(found[0])
        self._before[thread] = int(begin[-1]), int(length[-1]), max(int(until[-1]), int(end[-1]))


def _after(first: int, numbers: _Numbers) -> _Numbers:
    """For each of these numbers the one before it."""
    return np.concatenate([np.array([first], np.int64), numbers[:-1]])


class _Texts:
    """A column of texts of which few are different: ``texts``, null as the last of them, and the number of each row's."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        whole = column.combine_chunks()
        encoded = whole if isinstance(whole, pa.DictionaryArray) else whole.dictionary_encode()
        self.texts: list[str | None] = [*encoded.dictionary.to_pylist(), None]
        self.codes = encoded.indices.fill_null(len(self.texts) - 1).to_numpy()

    def among(self, wanted: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Which rows have one of these texts."""
        return np.array([text in wanted for text in self.texts], np.bool_)[self.codes]
