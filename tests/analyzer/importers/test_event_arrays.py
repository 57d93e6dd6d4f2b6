"""Events that are read all at a time say what they say when they are read one by one, however odd some of them are."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from firstfault.analyzer.importers.event_columns import NUMBERS, OUTER, TEXTS, UNPARSED, row_of
from firstfault.analyzer.importers.event_tokens import event_starts
from firstfault.analyzer.importers.kineto import KinetoTrace

from .trace_text import BASE, laid_out

_LIKE_OTHERS = (
    *("Output Dims", "Total reserved", "Xtotal Reserved", "name", "args", "ts", "grid", "", "In msg nelems"),
    *("Bnput Dims", "Axternal id", 'x"Input Dims', 'x"External id', "Record fanction id", "Sxquence number"),
)
_TEXTS = ('a": 1', "{", "}\n", "\n  {", "\\", '\\":', "},", "é\u2028", "\ud800", "aten::add", "[", ", ", "0x1f", " ,{}")


def value(draw: random.Random) -> Any:
    return draw.choice(
        [
            draw.randrange(-(2**65), 2**65),
            draw.randrange(10**6),
            draw.random(),
            1e300,
            None,
            True,
            draw.choice(_TEXTS),
            [draw.choice(_TEXTS), [1, []]],
            {},
            {"ts": 1, "args": {"External id": [{"name": 2}]}},
        ]
    )


def usual(draw: random.Random, number: int) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": number, "Record function id": 0, "Input Dims": [[draw.randrange(3), 4], []]}
    if draw.random() < 0.3:
        args |= {
            "Sequence number": draw.randrange(99),
            "Total Reserved": -draw.randrange(2**40),
            "Op count": number % 3,
        }
    if draw.random() < 0.3:
        args = {
            draw.choice(["Bnput Dims", "Axternal id", "Record fanction id", "Sxquence number"]): [number % 2]
        } | args
    one = {"ph": "X", "cat": "cpu_op", "name": draw.choice(_TEXTS), "pid": 1, "tid": 2, "ts": 1e6 + number / 8}
    return one | ({"dur": number / 4} if draw.random() < 0.8 else {}) | {"args": args}


def odd(draw: random.Random, number: int) -> dict[str, Any]:
    one = usual(draw, number)
    for _ in range(draw.randrange(1, 4)):
        where = one if draw.random() < 0.4 else one["args"]
        keys = [*OUTER, "ts", "dur", *_LIKE_OTHERS[:3]] if where is one else [*NUMBERS, *TEXTS, *_LIKE_OTHERS]
        where[draw.choice(keys)] = value(draw)
    return one


def file_of(path: Path, texts: list[str]) -> Path:
    head = f'{{\n    "baseTimeNanoseconds": {BASE},\n    "traceEvents": ['
    path.write_bytes((head + ",".join(texts) + "\n  ]}").encode("utf-8", "surrogatepass"))
    return path


def read(path: Path) -> tuple[KinetoTrace, list[dict[str, Any]]]:
    trace = KinetoTrace(path)
    trace.write(path.with_suffix(".parquet"), rank=0, window=0)
    return trace, pq.read_table(path.with_suffix(".parquet")).to_pylist()


def told(row: dict[str, Any]) -> dict[str, Any]:
    """What an event says, whatever the spelling of its JSON."""
    said = {k: v for k, v in row.items() if v is not None and k not in {"rank", "window_id", "event_id", "step"}}
    return {k: json.loads(v) if k == "args_json" or k in TEXTS.values() else v for k, v in said.items()}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 1.0])
def test_all_at_a_time_is_as_one_by_one(tmp_path, seed, share):
    draw = random.Random(seed)
    given = [odd(draw, n) if draw.random() < share else usual(draw, n) for n in range(120)]
    trace, rows = read(file_of(tmp_path / "t.json", [laid_out(one) for one in given]))
    assert trace.is_trace
    assert len(rows) == len(given)
    for one, row in zip(given, rows, strict=True):
        alone = row_of(json.loads(json.dumps(one)), BASE)
        expected = {k: v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for k, v in alone.items()}
        assert told(row) == told(expected)
    if share == 0:
        escaped = sum('\\":' in json.dumps(one) for one in given)
        assert trace.one_by_one <= escaped + sum("\ud800" in one["name"] for one in given)


@pytest.mark.parametrize("seed", range(30))
def test_text_that_is_broken_anywhere_loses_no_other_event(tmp_path, seed):
    draw = random.Random(seed)
    texts = [laid_out(usual(draw, n)) for n in range(40)]
    at = draw.randrange(1, 40)
    where = draw.randrange(8, len(texts[at]) - 4)
    broken = (
        texts[at][:where]
        + draw.choice(["", '"', "{", "}", ":", ",", "9", "\\", '":', "\ud800"])
        + texts[at][where + 1 :]
    )
    _, whole = read(file_of(tmp_path / "whole.json", texts))
    _, rows = read(file_of(tmp_path / "broken.json", [*texts[:at], broken, *texts[at + 1 :]]))
    others = [n for n in range(40) if n != at]
    assert len(rows) == 40
    assert [told(rows[n]) for n in others] == [told(whole[n]) for n in others]
    try:
        msgspec.json.decode(broken.strip().encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        given = json.loads(rows[at]["args_json"] or "{}")
        assert UNPARSED in given or told(rows[at]) == told(whole[at]) or set(told(rows[at])) != set()


def test_a_key_that_stands_twice_or_beside_its_args_is_kept(tmp_path):
    text = laid_out(usual(random.Random(0), 1))
    moved = text.replace('    "ph": "X",\n', "    ").replace("\n    }\n  }", '\n    },\n    "ph": "X"\n  }')
    twice = text.replace('"External id": 1', '"External id": 1, "External id": 2')
    fused = text.replace("\n    }\n  }", '},"tid": 7\n  }')
    _, rows = read(file_of(tmp_path / "t.json", [text, moved, twice, fused, text]))
    assert [r["ph"] for r in rows] == ["X"] * 5
    assert [r["external_id"] for r in rows] == [1, 1, 2, 1, 1]
    assert [r["tid"] for r in rows] == ["2", "2", "2", "7", "2"]
    assert all(r["args_json"] is None or UNPARSED not in r["args_json"] for r in rows)


def test_more_different_texts_than_are_kept(tmp_path):
    count = 40_000  # in one piece, the last of them with a key that is new
    given = [
        {"ph": "X", "cat": "c", "name": f"n{n}", "pid": 1, "tid": 2, "ts": n} | ({"s": "t"} if n > 36_000 else {})
        for n in range(count)
    ]
    trace, rows = read(file_of(tmp_path / "t.json", [laid_out(one | {"args": {"a": 1}}) for one in given]))
    assert trace.one_by_one == 0
    assert [row["name"] for row in rows] == [one["name"] for one in given]
    assert [row["scope"] for row in rows] == [one.get("s") for one in given]


def test_keys_that_are_alike_in_parts_are_told_apart(tmp_path):
    names = [
        "Input Dims",
        "Xnput Dims",
        "x Input Dims",
        "Record function id",
        "Rxcord function id",
        "Record functiox id",
    ]
    longer = ["a name of more than twenty letters", "a name of mxre than twenty letters", "External id", "Axternal id"]
    given = [
        {"ph": "X", "cat": "c", "name": "n", "pid": 1, "tid": 2, "ts": n, "args": {name: n, "Ev Idx": n}}
        for n, name in enumerate((*names, *longer) * 3)
    ]
    trace, rows = read(file_of(tmp_path / "t.json", [laid_out(one) for one in given]))
    assert trace.one_by_one == 0
    assert [told(row) for row in rows] == [told(row_of(one, BASE)) for one in given]


def test_events_without_keys_and_keys_at_the_very_beginning(tmp_path):
    text = laid_out(usual(random.Random(0), 1))
    _, rows = read(
        file_of(tmp_path / "t.json", [text, "\n  {}", '\n  {"ph":"i"}', '\n  {"a":1,"name":"b"\n  }', "\n  {}", text])
    )
    assert [row["ph"] for row in rows] == ["X", None, "i", None, None, "X"]
    assert [row["name"] for row in rows[2:5]] == [None, "b", None]


def test_a_piece_may_begin_with_an_event_that_is_empty():
    text = b'{},\n  {"ph": "X",\n    "name": "n"\n  },\n  {}'
    assert event_starts(text).tolist() == [0, 6, len(text) - 2]
