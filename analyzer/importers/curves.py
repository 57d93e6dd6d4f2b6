"""Curves as CSV, JSON lines, a JSON list of records or a JSON object of lists, with whatever columns they have."""

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ImportFileError
from .byte_streams import ByteStream, encoding_of
from .records import Record, number_of, put_records, time_of
from .target import RunTarget

_LARGEST = 1 << 29
"""Bytes of text that are held at once."""

_DECIMAL_COMMA = re.compile(r"^(-?\d+),(\d+(?:[eE][+-]?\d+)?)$")


def import_curves(path: Path, target: RunTarget, label: str) -> str:
    """Read a file of curves into the target. Returns what was found, in a few words."""
    with ByteStream(path) as stream:
        raw = stream.read(_LARGEST)
        if stream.read(1):
            raise ImportFileError(
                f"{path}: holds more than {_LARGEST >> 20} MB of text; keep every tenth row and import that"
            )
    text = raw.decode(encoding_of(raw), "replace").rstrip("\0")  # a machine that lost power leaves zeros at the end
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    json_ = text.lstrip()[:1] in {"{", "["} or re.search(r'\{\s*"', first)
    records = _json_records(path, text) if json_ else _csv_records(path, text, target)
    return put_records(path, records, target, label, _kind(path))


def _kind(path: Path) -> str:
    return "json" if ".json" in "".join(path.suffixes) else "csv"


# -- records out of text ----------------------------------------------------------------------------------------------------


def _json_records(path: Path, text: str) -> list[Record]:
    try:
        whole = json.loads(text)
    except ValueError:
        return _json_lines(path, text)
    except RecursionError as e:
        raise ImportFileError(f"{path}: nests its brackets too deeply to be a file of curves") from e
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
        except (ValueError, RecursionError):
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


def _csv_records(path: Path, text: str, target: RunTarget) -> list[Record]:
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
    try:
        rows = [[cell.strip() for cell in row] for row in split]
    except csv.Error as e:
        raise ImportFileError(f"{path}: is no table ({e}); save it as CSV with one row a line") from e
    if mark == ";" or (mark == "\t" and not any("." in cell for row in rows[1:] for cell in row)):
        rows = [[_DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in row] for row in rows]
    if _is_header(rows):
        header, rows = rows[0], rows[1:]
    elif any(named := _named_by_cells(rows)) or (
        comments and len(named := re.split(r"[,;\t ]+", comments[-1].lstrip("# \t").strip())) == len(rows[0])
    ):
        header = named
    elif len(rows[0]) <= 2:
        header = ["loss"] if len(rows[0]) == 1 else ["step", "loss"]
    else:
        raise ImportFileError(
            f"{path}: its columns have no names; put a line with names such as step,loss,lr before the numbers"
        )
    whole = [row for row in rows if any(number_of(cell) is not None for cell in row) and row != header]
    if left := len(rows) - len(whole):
        first = next(" ".join(row) for row in rows if row not in whole)
        target.event(
            "lines-left-out", f"{left} lines of {path.name} hold no number and were left out, first {first[:60]!r}."
        )
    records = [{name: cell for name, cell in zip(header, row, strict=False) if name and cell} for row in whole]
    return _wandb_export(path, header, records)


def _is_header(rows: list[list[str]]) -> bool:
    """Whether the first row names the columns: a text stands over numbers there, or there is nothing but texts."""
    numeric = {at for row in rows[1:] for at, cell in enumerate(row) if number_of(cell) is not None}
    texts = {at for at, cell in enumerate(rows[0]) if cell and number_of(cell) is None}
    return bool(texts & numeric) or len(texts) == len(rows[0])


def _named_by_cells(rows: list[list[str]]) -> list[str]:
    """Names for columns of numbers behind a column that is the same text in every row, as a logger joins them: `Loss, 0.5, …`.
    Empty for the other columns, but for a first one of moments."""
    width = min(map(len, rows))
    same = [len({row[at] for row in rows}) == 1 and number_of(rows[0][at]) is None for at in range(width)]
    names = [
        rows[0][at - 1] if at and same[at - 1] and number_of(rows[0][at]) is not None else "" for at in range(width)
    ]
    if any(names) and time_of(rows[0][0]) is not None:
        names[0] = "time"
    return names


def _wandb_export(path: Path, header: list[str], records: list[Record]) -> list[Record]:
    """The rows of a chart that W&B exports, `RUN - train/loss` with its `__MIN` and `__MAX`, under plain names. Raises
    ImportFileError where they are of several runs."""
    bounds = [name for name in header if name.endswith(("__MIN", "__MAX"))]
    if not bounds:
        return records
    runs = sorted({name.rsplit(" - ", 1)[0] for name in header if " - " in name})
    if len(runs) > 1:
        listed = ", ".join(runs[:6])
        raise ImportFileError(
            f"{path}: holds {len(runs)} runs of W&B ({listed}); export one run, or keep the columns of one"
        )
    return [{name.rsplit(" - ", 1)[-1]: v for name, v in r.items() if name not in bounds} for r in records]
