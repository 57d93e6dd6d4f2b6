"""Dumps, execution traces and timelines that are torn, nested without end or of wrong types: one line, or what is whole."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import import_files

DUMP = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 2, "last_completed_collective": 1}},
    "entries": [
        {"record_id": n, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": n + 1, "input_sizes": [[4]],
         "profiling_name": "nccl:all_reduce", "time_created_ns": 10**18, "input_dtypes": ["Float"], "state": "started",
         "is_p2p": False, "timeout_ms": 1000, "frames": [{"filename": "train.py", "line": 3, "name": "main"}]}
        for n in range(3)
    ],
}  # fmt: skip
NODES = {
    "schema": "1.0.1",
    "nodes": [{"name": "aten::mm", "id": 5, "ctrl_deps": 1, "fw_parent": 0, "inputs": [], "attrs": []}],
}
TIMELINE = [[-1, 1, 100, 0], [10**15, 2, 300, 4], [10**15 + 5, 3, -300, 4]]
WHOLE = {"nccl_trace_rank_0.json": DUMP, "et.json": NODES, "memory.json": TIMELINE}
WRONG: tuple[Any, ...] = (
    None,
    -1,
    2**70,
    1.5,
    float("nan"),
    "",
    "x" * 3000,
    [],
    {},
    [[[]]],
    True,
    "\ud800",
    "[0, [1]]",
)


def read(path: Path, out: Path) -> None:
    """Import and judge; whatever is wrong with the file is one clear error."""
    refused = ""
    try:
        import_files([path], out, "0")
    except ImportFileError as e:
        refused = str(e)
    if refused:
        assert str(path) in refused
        assert "\n" not in refused
        assert not out.exists()
        return
    with Trace(out) as trace:
        assert not [n for n in diagnose(trace).not_evaluable if "mistake in firstfault" in n.why]


def changed(value: Any, rng: random.Random) -> Any:
    """The same with one value somewhere replaced."""
    if rng.random() < 0.25 or not isinstance(value, list | dict) or not value:
        return rng.choice(WRONG)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    at = rng.choice(list(keys))
    copy = value.copy()
    copy[at] = changed(value[at], rng)
    return copy


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_cut_anywhere_is_one_clear_error(tmp_path, name):
    text = json.dumps(WHOLE[name])
    for n, at in enumerate(range(1, len(text), max(1, len(text) // 6))):
        (tmp_path / name).write_text(text[:at])
        read(tmp_path / name, tmp_path / f"run{n}")


@pytest.mark.parametrize("name", WHOLE)
def test_values_of_wrong_types_bring_nothing_down(tmp_path, name):
    rng = random.Random(name)
    for n in range(6):
        (tmp_path / name).write_text(json.dumps(changed(WHOLE[name], rng)))
        read(tmp_path / name, tmp_path / f"run{n}")


@pytest.mark.parametrize("begin", ['{"pg_config": ', '{"nodes": [{"ctrl_deps": 1, "x": ', "[[-1, 1, 100, 0], "])
def test_brackets_without_end_are_one_clear_error(tmp_path, begin):
    (tmp_path / "deep.json").write_text(begin + "[" * 100_000)
    with pytest.raises(ImportFileError, match=r"deep\.json"):
        import_files([tmp_path / "deep.json"], tmp_path / "run", "0")
