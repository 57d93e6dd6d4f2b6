"""Real traces of several layouts and devices, imported and exported: every event comes out as it went in."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from firstfault.analyzer import Trace
from firstfault.analyzer.export.perfetto import export_trace
from firstfault.analyzer.importers import import_files
from firstfault.analyzer.importers.event_columns import row_of

REAL = Path(os.environ.get("FIRSTFAULT_REAL_FILES", "not-given")) / "traces"
NAMES = sorted(json.loads((REAL / "truth.json").read_text())) if REAL.is_dir() else []

PHASES = set("BEXiInNODSTpFstfPCMVvRcabe(,)")
"""Kinds of events that the Trace Event Format names."""


def whole(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)


def meaning(event: dict[str, Any], base: int) -> dict[str, Any]:
    """What an event says, however it is spelled: moments since 1970, values by their columns, everything else as it stands."""
    row = {name: value for name, value in row_of(event, base).items() if value is not None}
    rest = json.loads(row.pop("args_json", "{}"))
    for name in ("input_dims", "input_types", "input_strides", "concrete_inputs"):
        if name in row:
            row[name] = json.loads(row[name])
    return row | {"rest": {key: value for key, value in rest.items() if value is not None}}


def is_valid(event: dict[str, Any]) -> bool:
    """What the Trace Event Format asks of an event."""
    if (
        event["ph"] not in PHASES
        or not isinstance(event.get("name", ""), str)
        or not isinstance(event.get("args", {}), dict)
    ):
        return False
    if event["ph"] != "M" and not isinstance(event.get("ts"), int | float):
        return False
    if event["ph"] == "X" and not isinstance(event.get("dur"), int | float):
        return False
    return event["ph"] not in "stf" or "id" in event


@pytest.mark.skipif(not REAL.is_dir(), reason="FIRSTFAULT_REAL_FILES names no folder of real traces")
@pytest.mark.parametrize("name", NAMES)
def test_every_event_of_a_real_trace_goes_round(tmp_path, name):
    given = whole(REAL / name)
    import_files([REAL / name], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        export_trace(trace, tmp_path / "out.json")
    found = whole(tmp_path / "out.json")
    came_out = found["traceEvents"][-len(given["traceEvents"]) :]
    base = given.get("baseTimeNanoseconds", 0)
    for before, after in zip(given["traceEvents"], came_out, strict=True):
        assert meaning(after, found["baseTimeNanoseconds"]) == meaning(before, base), before
        assert type(after.get("id")) is type(before.get("id")), before
    assert found.get("deviceProperties") == given.get("deviceProperties")
    assert [one for one in came_out if not is_valid(one)] == [one for one in given["traceEvents"] if not is_valid(one)]
    ours = found["traceEvents"][: -len(given["traceEvents"])]
    assert ours
    assert all(is_valid(one) for one in ours)
