"""A trace says the same in whatever layout its JSON is; what is broken gives all that is whole."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from firstfault.analyzer import Trace
from firstfault.analyzer.importers import import_files
from firstfault.analyzer.importers.kineto import KinetoTrace
from firstfault.analyzer.importers.native_scan import ENV_NATIVE, load_scanner

from .trace_text import BASE, event, kineto

REAL = Path(os.environ.get("FIRSTFAULT_REAL_FILES", "not-given")) / "traces"


@pytest.fixture(autouse=True, params=["by the library", "without it"])
def way(request, monkeypatch, need_library):
    """Every test with the library in C and without it."""
    monkeypatch.setenv(ENV_NATIVE, "1" if request.param == "by the library" else "0")
    if request.param == "by the library":
        need_library(load_scanner(), "the library was not built here")


def events() -> list[dict[str, Any]]:
    """Two steps on two threads with their twins on the device, operators, kernels, nested and odd args."""
    found = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}]
    for step in (550, 551):
        at = (step - 550) * 1000.0
        found += [event(f"ProfilerStep#{step}", at + tid, 900.0, cat="user_annotation", tid=tid) for tid in (1, 2)]
        found.append(event(f"ProfilerStep#{step}", at + 90, 990.0, cat="gpu_user_annotation", pid=0, tid=7))
        for n in range(40):
            dims = {"Input Dims": [[2, n], []], "External id": n, "Concrete Inputs": ["", "[1, 2]"]}
            found.append(event("aten::mm", at + 20 * n + 5.125, 10.001, args=dims))
            launch = {"stream": 7, "correlation": n, "grid": [n, 1, 1], "nested": {"a": [{"b": n}, {"c": "},{"}]}}
            found.append(event(f'k<{n}>,"{{":', at + 20 * n + 8, 21.5, cat="kernel", pid=0, tid=7, args=launch))
        found.append({"ph": "i", "name": "[memory]", "s": "t", "pid": 1, "tid": 1, "ts": at + 3, "args": {}})
    return found


HEADER = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0}, {"id": 1}],
    "distributedInfo": {"rank": 3, "world_size": 8},
}


def shuffled(one: dict[str, Any]) -> dict[str, Any]:
    """The same keys, args in their midst."""
    keys = sorted(one, key=lambda key: (key[-1], key))
    return {key: one[key] for key in keys}


def layouts() -> dict[str, bytes]:
    """The same trace in every layout."""
    base = {"baseTimeNanoseconds": BASE}
    whole = {**HEADER, **base, "traceEvents": events()}
    behind = {"traceEvents": events(), **HEADER, **base}
    turned = {**HEADER, "traceEvents": [shuffled(one) for one in events()], **base}
    lines = ",\n".join(json.dumps(one) for one in events())
    texts = {
        "compact": json.dumps(whole, separators=(",", ":")),
        "default": json.dumps(whole),
        "indent 1": json.dumps(whole, indent=1),
        "indent 2": json.dumps(whole, indent=2),
        "indent 4": json.dumps(behind, indent=4),
        "tabs": json.dumps(whole, indent="\t"),
        "sorted": json.dumps(whole, indent=2, sort_keys=True),
        "sorted compact": json.dumps(whole, separators=(",", ":"), sort_keys=True),
        "base behind": json.dumps(behind, separators=(",", ":")),
        "other order": json.dumps(turned, separators=(",", ":")),
        "no indent": json.dumps(whole, indent=0),
        "one a line": f'{{"traceEvents": [\n{lines}\n], "baseTimeNanoseconds": {BASE}, {json.dumps(HEADER)[1:]}',
        "windows": json.dumps(whole, indent=2).replace("\n", "\r\n"),
        "byte order mark": "\ufeff" + json.dumps(whole),
        "spaces": json.dumps(whole, separators=(" , ", " : ")),
    }
    raw = {name: text.encode() for name, text in texts.items()}
    raw["packed twice"] = gzip.compress(gzip.compress(raw["default"]))
    return raw


LAYOUTS = layouts()


def read(path: Path) -> tuple[KinetoTrace, list[dict[str, Any]]]:
    trace = KinetoTrace(path)
    trace.find_steps()
    part = path.with_suffix(".parquet")
    trace.write(part, rank=0, window=0)
    return trace, pq.read_table(part).to_pylist()


def meaning(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "args_json": json.loads(row["args_json"] or "{}")}


@pytest.fixture
def as_kineto(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = kineto(tmp_path_factory.mktemp("kineto") / "t.json", events(), **HEADER)
    _, rows = read(path)
    assert [r["ts_ns"] for r in rows] == [BASE + round(one["ts"] * 1000) for one in events()]
    return [meaning(row) for row in rows]


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_says_the_same(tmp_path, as_kineto, name):
    path = tmp_path / "t.json"
    path.write_bytes(LAYOUTS[name])
    trace, rows = read(path)
    assert [meaning(row) for row in rows] == as_kineto
    assert trace.spans.spans == {550: (BASE + 1_000, BASE + 902_000), 551: (BASE + 1_001_000, BASE + 1_902_000)}
    assert trace.header["distributedInfo"]["rank"] == 3
    assert not trace.cut
    assert trace.unparsed == 0


@pytest.mark.parametrize("name", ["compact", "indent 4", "sorted", "one a line"])
def test_no_layout_is_read_one_by_one(tmp_path, name):
    path = tmp_path / "t.json"
    flat = [one for one in events() if "nested" not in one["args"]]
    text = LAYOUTS[name].decode()
    again = {"indent": 4} if name == "indent 4" else {"indent": 2, "sort_keys": True} if name == "sorted" else {}
    path.write_text(json.dumps({"traceEvents": flat, "baseTimeNanoseconds": BASE}, **again) if text else "")
    trace, rows = read(path)
    assert len(rows) == len(flat)
    assert trace.one_by_one == 0


@pytest.mark.parametrize("name", ["compact", "indent 4", "sorted"])
def test_a_layout_that_breaks_off_keeps_every_whole_event(tmp_path, as_kineto, name):
    raw = LAYOUTS[name]
    first = raw.index(b'"traceEvents"')
    for share in (0.1, 0.5, 0.77, 0.93):
        path = tmp_path / "t.json"
        path.write_bytes(raw[: first + int((len(raw) - first) * share)])
        trace, rows = read(path)
        assert trace.cut
        assert trace.broken_at is None
        names = [row["name"] for row in rows]
        assert names == [row["name"] for row in as_kineto[: len(names)]]
        assert len(names) > len(as_kineto) * share * 0.7


def test_numbers_that_are_none_and_broken_strings_lose_no_other_event(tmp_path):
    given = [event(f"op{n}", float(n)) for n in range(30)]
    given[7]["args"] = {"loss": float("nan")}
    given[9]["dur"] = float("inf")
    text = (
        json.dumps({"traceEvents": given}, separators=(",", ":")).replace('"op20"', '"C:\\x "y"').replace("op3", "o\tp")
    )
    path = tmp_path / "t.json"
    path.write_text(text)
    trace, rows = read(path)
    assert [n for n, row in enumerate(rows) if row["name"] is None] == [20]
    assert trace.unparsed == 1
    assert len(rows) == 30
    assert json.loads(rows[7]["args_json"], parse_constant=pytest.fail) == {"loss": "NaN"}
    assert rows[9]["dur_ns"] is None


def test_brackets_without_end_and_rubbish_give_what_is_before(tmp_path):
    path = tmp_path / "t.json"
    for rubbish in ("[" * 100_000, '{"a":' * 100_000, "\0" * 5000, "x" * 300_000):
        path.write_text('{"traceEvents": [' + json.dumps(event("op", 1.0)) + ", " + rubbish)
        trace, rows = read(path)
        assert [row["name"] for row in rows] == ["op"]
        assert trace.cut


def test_a_clock_that_an_event_names_is_not_the_clock_of_the_trace(tmp_path):
    odd = event("op", 5.0, args={"note": 1, "baseTimeNanoseconds": 77})
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [odd, event("ProfilerStep#4", 1.0)], "displayTimeUnit": "ms"}))
    trace, rows = read(path)
    assert rows[0]["ts_ns"] == 5_000
    assert trace.spans.spans == {4: (1_000, 11_000)}


def test_ranks_come_from_names_and_workers(tmp_path):
    names = ["rank5_trace.json", "host_17.1690000000000.pt.trace.json", "host_17.1690000009999.pt.trace.json"]
    for n, name in enumerate(names):
        (tmp_path / name).write_text(json.dumps({"traceEvents": [event(f"op{n}", 1.0)]}))
    import_files([tmp_path / name for name in names], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        rows = trace.sql("SELECT rank, window_id, name FROM profiler_events ORDER BY name").rows()
    assert rows == [(5, 0, "op0"), (0, 0, "op1"), (0, 1, "op2")]


_BUSY = """
SELECT coalesce(sum(greatest(0, until - greatest(ts_ns, coalesce(before, ts_ns)))), 0) / 1e3 FROM (
    SELECT ts_ns, ts_ns + dur_ns AS until, max(ts_ns + dur_ns) OVER (ORDER BY ts_ns, dur_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM profiler_events WHERE cat IN ('kernel', 'gpu_memcpy', 'gpu_memset'))
"""


def close(a: float, b: float) -> bool:
    """Equal but for the binary fractions that the independent reading summed."""
    return abs(a - b) <= max(0.1, 2e-5 * abs(b))


@pytest.mark.skipif(not REAL.is_dir(), reason="FIRSTFAULT_REAL_FILES names no folder of real traces")
@pytest.mark.parametrize("name", json.loads((REAL / "truth.json").read_text()) if REAL.is_dir() else [])
def test_real_traces_are_read_as_an_independent_reading_found(tmp_path, name):
    truth = json.loads((REAL / "truth.json").read_text())[name]
    import_files([REAL / name], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        found = trace.sql(
            "SELECT count(*) AS events, count(*) FILTER (ph = 'X') AS complete_events,"
            " count(*) FILTER (cat = 'kernel') AS kernels, coalesce(sum(dur_ns) FILTER (cat = 'kernel'), 0) / 1e3 AS kernel_us,"
            " (max(ts_ns + dur_ns) - min(ts_ns) FILTER (ph = 'X')) / 1e3 AS span_us FROM profiler_events"
        ).to_dicts()[0]
        found["steps"] = trace.sql("SELECT step FROM steps ORDER BY step")["step"].to_list()
        found["device_busy_us"] = trace.sql(_BUSY).item()
    for key in ("events", "complete_events", "steps", "kernels"):
        assert found[key] == truth[key], key
    for key in ("kernel_us", "device_busy_us", "span_us"):
        assert close(found[key], truth[key]), (key, found[key], truth[key])
