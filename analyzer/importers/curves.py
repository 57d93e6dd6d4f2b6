"""Curves as CSV, JSON lines, a JSON list of records or a JSON object of lists, with whatever columns they have."""

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import ImportFileError
from .byte_streams import ByteStream
from .series import Curves, Point, put_curves
from .target import RunTarget

Record = dict[str, Any]

_STEP = (
    *(
        "step",
        "globalstep",
        "trainerglobalstep",
        "trainglobalstep",
        "iteration",
        "iter",
        "it",
        "update",
        "updates",
        "numupdates",
    ),
    *("trainnumupdates", "nstep", "steps", "batch", "batchidx", "batchid"),
)
_EPOCH = ("epoch", "epochs", "ep")
_RANK = ("rank", "globalrank", "procrank")
_TIME = ("time", "timestamp", "walltime", "datetime", "date", "ts")
_SPLIT = ("phase", "split", "mode", "stage", "set", "subset", "partition")
_EVALUATION = re.compile(r"^(val|valid|validation|eval|evaluation|evaluate|test|testing|dev|holdout)$")
_LARGEST = 1 << 30


def import_curves(path: Path, target: RunTarget, label: str) -> str:
    """Read a file of curves into the target. Returns what was found, in a few words."""
    with ByteStream(path) as stream:
        raw = stream.read(_LARGEST)
    text = raw.decode("utf-8-sig", "replace")
    json_ = text.lstrip()[:1] in "{[" or re.search(r'\{\s*"', text.lstrip().partition("\n")[0])
    records = _json_records(path, text) if json_ else _csv_records(path, text)
    by_rank = _by_rank(path, records, target, label)
    if not any(points for curves in by_rank.values() for points in curves.values()):
        raise ImportFileError(f"{path}: holds no rows of numbers; nothing can be imported from it")
    words = [put_curves(target, path, rank, curves, _kind(path)) for rank, curves in sorted(by_rank.items())]
    return "; ".join(words)


def _kind(path: Path) -> str:
    return "json" if ".json" in "".join(path.suffixes) else "csv"


# -- records out of text ----------------------------------------------------------------------------------------------------


def _json_records(path: Path, text: str) -> list[Record]:
    try:
        whole = json.loads(text)
    except ValueError:
        return _json_lines(path, text)
    if isinstance(whole, list):
        return [_flat(one) for one in whole if isinstance(one, dict)]
    lists = {k: v for k, v in _flat(whole).items() if isinstance(v, list)} if isinstance(whole, dict) else {}
    if not lists:
        return [_flat(whole)] if isinstance(whole, dict) else []
    longest = max(map(len, lists.values()))
    return [{k: v[i] for k, v in lists.items() if i < len(v)} for i in range(longest)]


def _json_lines(path: Path, text: str) -> list[Record]:
    records: list[Record] = []
    unreadable = 0
    for line in text.splitlines():
        begin = line.find("{")
        try:
            one = json.loads(line[begin:]) if begin >= 0 else None
        except ValueError:
            unreadable += 1
            continue
        if isinstance(one, dict):
            records.append(_flat(one))
    if unreadable > 1 and unreadable > len(records):
        raise ImportFileError(f"{path}: {unreadable} of its lines are no JSON; give JSON lines or CSV")
    return records


def _flat(one: Mapping[str, Any], before: str = "") -> Record:
    flat: Record = {}
    for key, value in one.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{key}/")
        else:
            flat[f"{before}{key}"] = value
    return flat


def _csv_records(path: Path, text: str) -> list[Record]:
    lines = [line for line in text.splitlines() if line.strip()]
    comments = [line for line in lines if line.lstrip().startswith("#")]
    lines = [line for line in lines if not line.lstrip().startswith("#")]
    if not lines:
        return []
    mark = max(",;\t", key=lines[0].count)
    split = (
        csv.reader(io.StringIO("\n".join(lines)), delimiter=mark)
        if mark in lines[0]
        else iter([s.split() for s in lines])
    )
    rows = [[cell.strip() for cell in row] for row in split]
    if any(_number(cell) is None and cell for cell in rows[0]):
        header, rows = rows[0], rows[1:]
    elif comments and len(named := re.split(r"[,;\t ]+", comments[-1].lstrip("# \t").strip())) == len(rows[0]):
        header = named
    elif len(rows[0]) <= 2:
        header = ["loss"] if len(rows[0]) == 1 else ["step", "loss"]
    else:
        raise ImportFileError(
            f"{path}: its columns have no names; put a line with names such as step,loss,lr before the numbers"
        )
    if mark == ";":
        rows = [[re.sub(r"^(-?\d+),(\d+)$", r"\1.\2", cell) for cell in row] for row in rows]
    return [{name: cell for name, cell in zip(header, row, strict=False) if name and cell} for row in rows]


# -- curves out of records ----------------------------------------------------------------------------------------------------


def _by_rank(path: Path, records: list[Record], target: RunTarget, label: str) -> dict[int, Curves]:
    names = list(dict.fromkeys(name for record in records for name in record))
    plain = {name: re.sub(r"[^a-z0-9]", "", name.lower().rpartition("/")[2]) for name in names}
    whole = {name: re.sub(r"[^a-z0-9]", "", name.lower()) for name in names}

    def column(wanted: tuple[str, ...]) -> str | None:
        found = [name for word in wanted for name in names if whole[name] == word or plain[name] == word]
        for name in found:
            values = {r[name] for r in records if isinstance(r.get(name), str | int | float)}
            numbers = {_number(value) for value in values} - {None}
            if wanted is _SPLIT or len(numbers) > 1 or (numbers and (wanted is _RANK or len(records) == 1)):
                return name  # a number that never changes counts nothing: `batch` may be the size of a batch
        return None

    step_name, epoch_name, rank_name, split_name = column(_STEP), column(_EPOCH), column(_RANK), column(_SPLIT)
    time_name = next((name for word in _TIME for name in names if plain[name] == word), None)
    if {*plain.values()} >= {"step", "value", "walltime"} and len(names) == 3:  # TensorBoard's download of one tag
        value_name = next(name for name in names if plain[name] == "value")
        tag = re.sub(r"^.*tag-", "", path.stem)
        records = [{**{k: v for k, v in r.items() if k != value_name}, tag: r.get(value_name)} for r in records]
    ranks: dict[int, dict[str, list[Point]]] = {}
    by_rank: dict[int, list[Record]] = {}
    for record in records:
        rank = _number(record.get(rank_name)) if rank_name else None
        by_rank.setdefault(int(rank) if rank is not None and 0 <= rank < 10**6 and rank == int(rank) else 0, []).append(
            record
        )
    about = {step_name, rank_name, time_name, split_name} - {None}
    for rank, mine in by_rank.items():
        curves = ranks.setdefault(rank, {})
        for step, record in zip(_numbered(path, mine, step_name, epoch_name, target, rank), mine, strict=True):
            split = str(record.get(split_name, "")).lower() if split_name else ""
            before = f"{split}/" if _EVALUATION.match(split) else f"{label}/" if label else ""
            when = _time(record.get(time_name)) if time_name else None
            for name, given in record.items():
                value = _number(given) if name not in about else None
                if value is not None:
                    curves.setdefault(before + name, []).append(Point(step, value, when))
    return dict(ranks)


def _numbered(
    path: Path, records: list[Record], step_name: str | None, epoch_name: str | None, target: RunTarget, rank: int
) -> Iterator[int]:
    """The step of each record: as it says, the row where none does; counted on where the counter starts anew each epoch."""
    name = step_name or epoch_name
    said = [_number(record.get(name)) if name else None for record in records]
    whole = [int(n) if n is not None and math.isfinite(n) and n == int(n) and abs(n) < 2**53 else None for n in said]
    if name is None or sum(n is not None for n in whole) < len(records) / 2:
        target.event(
            "steps-numbered", f"{path.name} does not number its steps; they are counted by rows from 0.", rank=rank
        )
        yield from range(len(records))
        return
    known = [n for n in whole if n is not None]
    starts, offset, highest, previous, resets, again = min(known), 0, known[0], known[0], 0, 0
    for n in whole:
        if n is None:
            yield max(previous + offset, 0)
            continue
        if n < previous:
            if n <= starts and name == step_name and previous - starts >= 1:
                offset, resets = highest + 1 - n, resets + 1
            else:
                again += 1
        previous = n
        highest = max(highest, n + offset)
        yield max(n + offset, 0)
    if resets:
        words = f"{path.name} starts counting steps anew {resets} times; they are counted on here."
        target.event("steps-numbered", words, rank=rank)
    if again:
        words = f"{path.name} goes back in its steps {again} times, as a training that was resumed does; what came later counts."
        target.event("steps-repeated", words, rank=rank)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _time(value: Any) -> int | None:
    number = _number(value)
    if number is not None and math.isfinite(number):
        for scale, low in ((1, 1e18), (10**3, 1e15), (10**6, 1e12), (10**9, 1e9)):
            if low <= number < 10 * low:
                return int(number * scale)
        return None
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1e9)
