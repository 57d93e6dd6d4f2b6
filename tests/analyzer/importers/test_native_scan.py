"""What the library in C says of events is what Python says of them, one by one."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from firstfault.analyzer.importers import native_scan
from firstfault.analyzer.importers.event_columns import row_of
from firstfault.analyzer.importers.kineto import KinetoTrace
from firstfault.analyzer.importers.native_scan import ENV_NATIVE, load_scanner

from .trace_text import BASE, event


@pytest.fixture(autouse=True)
def library(need_library):
    """The library must be there, but where it cannot be built."""
    need_library(load_scanner(), "the library was not built here")


ODD: list[Any] = [
    {"ph": "X", "cat": "cpu_op", "name": 'a"b\\', "pid": 1, "tid": "x", "ts": 1.5, "dur": 2},
    event(
        "x", 1.0, args={"External id": 3, "Input Dims": [[1, 2], []], "foo": {"a": [1, {"b": "c d"}]}, "Bytes": None}
    ),
    event("x", 1.0, args={"device": 1.0, "stream": "7", "correlation": -4, "Input type": "none", "Addr": 2**63 - 1}),
    event("x", 1.0, args={"External id": 1, "external id": 2, "Addr": 2**70, "Input Dims": None, "é\u2028": "日本"}),
    event("x", 1.0, args={"half": "\ud800", "tab": "\t", "slash": "\\/", "deep": [[[[{"a": [{}]}]]]]}),
    {"ph": "X", "name": "b", "ts": 1234567890123.4565, "dur": -1, "tts": 5, "id": None, "args": [1]},
    {"ph": "s", "name": "b", "ts": 4203669613175.703, "id": 12, "pid": True, "tid": None, "bp": "e"},
    {"ph": "s", "name": "b", "ts": "1", "id": "0x1f", "s": 1.5, "cat": -7, "dur": 1e3},
    {"name": "z", "ts": 4e15, "dur": 3.9e15, "args": {"loss": float("nan"), "top": float("inf")}},
    {"ts": 0.0005, "dur": 0.0015, "args": {}},
    {"ts": -12.5, "dur": -0.25, "args": {"a": -0.0, "b": 1e-7, "c": 123456789012345678901234567890}},
    {"args": {"a": {"args": {"External id": 4}}, "ts": 7, "name": "inside"}, "name": ""},
    {},
    5,
    "text",
    None,
    [1, {"ph": "X"}],
    {"": 1, "args": {"": 2}},
]


def rows(path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[dict[str, Any]], KinetoTrace]:
    monkeypatch.setenv(ENV_NATIVE, way)
    trace = KinetoTrace(path)
    trace.find_steps()
    part = path.with_suffix(".parquet")
    trace.write(part, rank=0, window=0)
    return pq.read_table(part).to_pylist(), trace


def known(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize(
    "layout", [{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False, "indent": 1}]
)
def test_odd_values_are_what_python_makes_of_them(tmp_path, monkeypatch, layout):
    some = [one for one in ODD if layout.get("ensure_ascii", True) or "\\ud8" not in json.dumps(one)]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": some, "baseTimeNanoseconds": BASE}, **layout))
    found, _ = rows(path, "1", monkeypatch)
    assert len(found) == len(some)
    own = {"rank": 0, "window_id": 0}
    for number, (row, one) in enumerate(zip(found, json.loads(path.read_text())["traceEvents"], strict=True)):
        expected = {
            k: v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for k, v in row_of(one, BASE).items()
        }
        assert known(row) == {**expected, **own, "event_id": number}, one


def test_keys_that_are_there_twice_are_read_as_json_reads_them(tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    path.write_text(
        '{"traceEvents": [{"name": "a", "name": "b", "ts": 1, "args": {"q": 1, "q": 2, "stream": 3, "stream": 4}}]}'
    )
    found, trace = rows(path, "1", monkeypatch)
    assert (found[0]["name"], found[0]["stream"], found[0]["args_json"]) == ("b", 4, '{"q":2}')
    assert trace.one_by_one == 1


@pytest.mark.parametrize("seed", range(60))
def test_damage_of_any_kind_loses_no_event_that_is_read_without_the_library(tmp_path, monkeypatch, seed):
    chance = random.Random(seed)
    given = [event(f"op{n}", float(n), args={"External id": n, "Input Dims": [[n]], "x": "y"}) for n in range(40)]
    raw = bytearray(json.dumps({"traceEvents": given}, indent=chance.choice([None, 1, 2])).encode())
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(20, len(raw))
        raw[at : at + chance.choice([0, 1, 1, 7])] = chance.choice(
            [b"", b'"', b"}", b"]", b"\\", b"{", b"\xff", b",", b"\0"]
        )
    path = tmp_path / "t.json"
    path.write_bytes(raw)
    native, by_library = rows(path, "1", monkeypatch)
    python, by_hand = rows(path, "0", monkeypatch)
    whole = {(row["name"], row["ts_ns"], row["external_id"]) for row in native}
    lost = [row["name"] for row in python if (row["name"], row["ts_ns"], row["external_id"]) not in whole]
    assert len(lost) <= 1  # the broken one may be cut at another place
    assert by_library.cut == by_hand.cut


def test_texts_beyond_what_is_kept_are_read_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(native_scan, "_MOST_TEXTS", 50)
    monkeypatch.setattr(native_scan, "MOST_EVENTS", 64)
    given = [event(f"op{n}", float(n), args={"note": f"n{n}"}) for n in range(1000)]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": given}))
    found, trace = rows(path, "1", monkeypatch)
    assert [row["name"] for row in found] == [one["name"] for one in given]
    assert [row["args_json"] for row in found] == [f'{{"note":"n{n}"}}' for n in range(1000)]
    assert trace.one_by_one == 0


def test_without_a_library_or_with_another_version_of_it_python_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(native_scan, "_PATH", tmp_path / "none.so")
    assert load_scanner() is None
    (tmp_path / "none.so").write_bytes(b"not a library")
    assert load_scanner() is None
    monkeypatch.undo()
    monkeypatch.setattr(native_scan, "VERSION", native_scan.VERSION + 1)
    assert load_scanner() is None
