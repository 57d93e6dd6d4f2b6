"""Sum the operators of an imported trace by exclusive time: which ran how often, in which module and phase.

The events of a thread are nested or apart. So the depth of an event is the number that began before it, less the number that
ended. The one that contains it is the last before it that lies one level higher. Both are computed for all events at once.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...schemas import TABLES, Phase

_OPERATORS = ("cpu_op", "operator")
_ANNOTATIONS = ("user_annotation",)
_FRAMES = "python_function"
_MODULE = "nn.Module: "
_COLUMNS = ["ph", "cat", "name", "pid", "tid", "ts_ns", "dur_ns", "step"]
_TEXTS = ["ph", "cat", "name", "pid", "tid"]
_DEEPEST = 1000
_TABLE = TABLES["profiled_operators"]

_Numbers = npt.NDArray[np.integer[Any]]


class _Events(NamedTuple):
    """Operators, annotations and modules of a trace, one array for each of what is known of them."""

    name: npt.NDArray[np.int32]
    """Number of the name."""
    thread: npt.NDArray[np.int32]
    begin: _Numbers
    length: _Numbers
    step: _Numbers
    """-1 where it is not known."""
    operator: npt.NDArray[np.bool_]
    module: npt.NDArray[np.bool_]


def _events_of(part: Path) -> tuple[_Events, list[str]]:
    """What counts of the events, and the names by number; read group by group, because a trace has millions of others."""
    names: dict[str, int] = {}
    threads: dict[str, int] = {}
    file = pq.ParquetFile(part, read_dictionary=_TEXTS)
    found = [_counted(file.read_row_group(i, columns=_COLUMNS), names, threads) for i in range(file.num_row_groups)]
    if not found:
        none = np.empty(0, np.int64)
        return _Events._make(none.astype(t) for t in (np.int32, np.int32, *[np.int64] * 3, np.bool_, np.bool_)), []
    return _Events._make(np.concatenate(arrays) for arrays in zip(*found, strict=True)), list(names)


def _counted(events: pa.Table, known_names: dict[str, int], known_threads: dict[str, int]) -> _Events:
    texts = {name: _coded(events.column(name)) for name in _TEXTS}
    kinds = [(kind or "").lower() for kind in texts["cat"][1]]
    names = [name or "" for name in texts["name"][1]]
    operator = np.array([kind in _OPERATORS for kind in kinds], np.bool_)[texts["cat"][0]]
    kept = operator | np.array([kind in _ANNOTATIONS for kind in kinds], np.bool_)[texts["cat"][0]]
    kept &= ~np.array([name.startswith("ProfilerStep#") for name in names], np.bool_)[texts["name"][0]]
    frame = np.array([kind == _FRAMES for kind in kinds], np.bool_)[texts["cat"][0]]
    module = frame & np.array([name.startswith(_MODULE) for name in names], np.bool_)[texts["name"][0]]
    complete = np.array([phase == "X" for phase in texts["ph"][1]], np.bool_)[texts["ph"][0]]
    begin, length = (events.column(name).fill_null(-1).to_numpy() for name in ("ts_ns", "dur_ns"))
    at = np.flatnonzero((kept | module) & complete & (length >= 0) & events.column("ts_ns").is_valid().to_numpy())
    tids = texts["tid"][1]
    thread, place = np.unique(
        texts["pid"][0][at].astype(np.int64) * len(tids) + texts["tid"][0][at], return_inverse=True
    )
    said = [f"{texts['pid'][1][t // len(tids)]}\0{tids[t % len(tids)]}" for t in thread.tolist()]
    numbers = np.array([known_threads.setdefault(t, len(known_threads)) for t in said], np.int32)
    codes = np.array([known_names.setdefault(name, len(known_names)) for name in names], np.int32)
    return _Events(
        name=codes[texts["name"][0][at]],
        thread=numbers[place] if len(numbers) else np.empty(0, np.int32),
        begin=begin[at],
        length=length[at],
        step=events.column("step").fill_null(-1).to_numpy()[at].astype(np.int64),
        operator=operator[at],
        module=module[at],
    )


def operators_of(part: Path, rank: int, window: int) -> pa.Table:
    """Rows of profiled_operators from the written events of one trace."""
    events, names = _events_of(part)
    if not len(events.name):
        return _TABLE.schema.empty_table()
    if not _in_order(events.thread, events.begin, events.length):
        order = np.lexsort((-events.length, events.begin, events.thread))
        events = _Events._make(array[order] for array in events)
    above, depth = _nested(events.thread, events.begin, events.length)
    inside = above >= 0
    spent = np.bincount(above[inside], events.length[inside], len(above))
    own = events.length - spent.astype(np.int64)
    paths, path_names = _paths(above, depth, np.where(events.module, events.name, -1), names)
    phase = _phases(above, depth, _own_phase(names)[events.name], paths > 0)
    kept = events.operator
    rows = pa.table(
        {
            "step": pa.array(events.step[kept], mask=events.step[kept] < 0),
            "code": pa.array(events.name[kept]),
            "path": pa.array(paths[kept]),
            "phase": pa.array(phase[kept]),
            "self_ns": pa.array(np.maximum(own[kept], 0)),
        }
    )
    sums = rows.group_by(["step", "code", "path", "phase"]).aggregate([("self_ns", "sum"), ("self_ns", "count")])
    sums = sums.append_column("name", pa.array(names).take(sums.column("code").combine_chunks()))
    sums = sums.sort_by([("step", "ascending"), ("self_ns_sum", "descending"), ("name", "ascending")])
    count = sums.num_rows
    said = {
        "rank": pa.repeat(pa.scalar(rank, pa.int32()), count),
        "window_id": pa.repeat(pa.scalar(window, pa.int32()), count),
        "step": sums.column("step"),
        "name": sums.column("name"),
        "module": pa.array(path_names).take(sums.column("path").combine_chunks()),
        "phase": pc.call_function(
            "if_else",
            [
                pc.call_function("less", [sums.column("phase"), pa.scalar(0)]),
                pa.scalar(None, pa.int64()),
                sums.column("phase"),
            ],
        ),
        "calls": sums.column("self_ns_count"),
        "self_ns": sums.column("self_ns_sum"),
    }
    columns = [said[c.name].cast(c.type) for c in _TABLE.columns]
    return pa.Table.from_arrays(columns, schema=_TABLE.schema)


def _coded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], list[str | None]]:
    """The number of each row's text, and the texts; null as the last of them."""
    whole = column.combine_chunks()
    whole = whole.unify_dictionaries().combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
    texts: list[str | None] = [*whole.dictionary.to_pylist(), None]
    return whole.indices.fill_null(len(texts) - 1).to_numpy().astype(np.int32), texts


def _in_order(thread: _Numbers, begin: _Numbers, length: _Numbers) -> bool:
    """Whether events stand by thread, begin and falling length already, as most profilers write them."""
    same = thread[1:] == thread[:-1]
    later = (begin[1:] > begin[:-1]) | ((begin[1:] == begin[:-1]) & (length[1:] <= length[:-1]))
    return bool(((thread[1:] > thread[:-1]) | (same & later)).all())


def _nested(thread: _Numbers, begin: _Numbers, length: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Of events by thread, begin and falling length: the one round each, -1 where there is none, and how deep it lies."""
    first = int(begin.min())
    width = int((begin + length).max()) - first + 2
    shift = np.unique(thread, return_inverse=True)[1] * width - first
    start, end = begin + shift, begin + shift + length
    count = len(start)
    index = np.arange(count)
    depth = np.clip(index - np.searchsorted(np.sort(end), start, side="right"), 0, _DEEPEST)
    keys = np.sort(depth * count + index)
    found = np.searchsorted(keys, (depth - 1) * count + index) - 1
    above = np.where(depth > 0, keys[np.maximum(found, 0)] % count, -1)
    round_it = (above >= 0) & (thread[above] == thread) & (end[above] >= start)
    return np.where(round_it, above, -1), depth


def _paths(above: _Numbers, depth: _Numbers, module: _Numbers, names: list[str]) -> tuple[_Numbers, list[str | None]]:
    """Number of the path of modules that each event lies in, and the paths; 0 is outside of all."""
    paths = np.zeros(len(above), np.int64)
    known: dict[tuple[int, int], int] = {}
    said: list[str | None] = [None]
    if not (module >= 0).any():
        return paths, said
    for level in range(int(depth.max()) + 1):
        here = np.flatnonzero(depth == level)
        outer = np.where(above[here] >= 0, paths[above[here]], 0)
        own = module[here]
        paths[here] = outer
        frames = np.flatnonzero(own >= 0)
        for path, name in np.unique(np.stack([outer[frames], own[frames]]), axis=1).T.tolist():
            if (path, name) not in known:
                known[path, name] = len(said)
                before = said[path]
                short = names[name].removeprefix(_MODULE)
                said.append(short if before is None else f"{before}.{short}")
        paths[here[frames]] = [known[pair] for pair in zip(outer[frames].tolist(), own[frames].tolist(), strict=True)]
    return paths, said


def _own_phase(names: list[str]) -> npt.NDArray[np.int64]:
    """The phase that each name tells, -1 where it tells none."""
    return np.array(
        [
            int(Phase.OPTIMIZER)
            if name.startswith("Optimizer.step#")
            else int(Phase.BACKWARD)
            if name.startswith("autograd::engine::evaluate_function")
            else -1
            for name in names
        ],
        np.int64,
    )


def _phases(above: _Numbers, depth: _Numbers, own: _Numbers, in_module: npt.NDArray[np.bool_]) -> _Numbers:
    """The phase of each event: its own, else that of the one around it, else forward inside of a module."""
    phase = own.copy()
    for level in range(1, int(depth.max()) + 1):
        here = np.flatnonzero((depth == level) & (own < 0) & (above >= 0))
        phase[here] = phase[above[here]]
    return np.where((phase < 0) & in_module, int(Phase.FORWARD), phase)
