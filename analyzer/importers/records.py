"""Make curves of records: which column counts the steps, which tells the rank, the time, and whether it was an evaluation."""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import ImportFileError
from .curve_names import EVALUATION
from .series import Curves, Point, put_curves
from .target import RunTarget

Record = dict[str, Any]

_STEP = (
    *("step", "globalstep", "trainerglobalstep", "trainglobalstep", "iteration", "iter", "it", "update"),
    *("updates", "numupdates", "trainnumupdates", "nstep", "steps", "totalsteps", "totaltimesteps"),
    *("timetotaltimesteps", "timesteps", "numtimesteps", "envsteps", "miscnupdates", "nupdates", "batch"),
    *("batchidx", "batchid"),
)
_EPOCH = ("epoch", "epochs", "ep")
_RANK = ("rank", "globalrank", "procrank")
_TIME = ("time", "timestamp", "walltime", "datetime", "date", "ts")
_SPLIT = ("phase", "split", "mode", "stage", "set", "subset", "partition")
_RUN = ("run", "runname", "runid", "experiment", "experimentname", "expname", "trial")
"""Columns that tell runs apart."""

_NAMED = ("name", "model", "modelname", "config")
"""Columns that do so where no two rows have the same."""

_RUNS = 3
"""Rows from which names that are all different are those of runs."""


def put_records(path: Path, records: list[Record], target: RunTarget, label: str, kind: str) -> str:
    """Add the curves of these records to the target. Returns what was found. Raises ImportFileError where no number is in
    them."""
    _refuse_runs(path, records)
    by_rank = _by_rank(path, records, target, label)
    if not any(points for curves in by_rank.values() for points in curves.values()):
        raise ImportFileError(f"{path}: holds no rows of numbers; nothing can be imported from it")
    words = [put_curves(target, path, rank, curves, kind) for rank, curves in sorted(by_rank.items())]
    if len(words) > 4:
        return f"{len(words)} ranks, each as rank {min(by_rank)}: {words[0]}"
    return "; ".join(words)


def _refuse_runs(path: Path, records: list[Record]) -> None:
    """Raise where rows are of several runs: their losses, one below the other, are no curve."""
    for name in {name: None for record in records for name in record}:
        plain = re.sub(r"[^a-z0-9]", "", name.lower())
        if plain not in _RUN + _NAMED:
            continue
        texts = {v for r in records if isinstance(v := r.get(name), str) and number_of(v) is None}
        each = len(texts) == len(records) >= _RUNS
        if each or (plain in _RUN and len(texts) > 1):
            many = "each of its rows is another run" if each else f"its rows are of {len(texts)} runs"
            listed = ", ".join(sorted(texts)[:3])
            raise ImportFileError(f"{path}: {many} ({name}: {listed} …); keep the rows that are steps of one run")


def _by_rank(path: Path, records: list[Record], target: RunTarget, label: str) -> dict[int, Curves]:
    names = list(dict.fromkeys(name for record in records for name in record))
    whole = {name: re.sub(r"[^a-z0-9]", "", name.lower()) for name in names}
    plain = {name: re.sub(r"[^a-z0-9]", "", name.lower().rpartition("/")[2]) for name in names}

    def column(wanted: Sequence[str]) -> str | None:
        found = [name for word in wanted for name in names if whole[name] == word or plain[name] == word]
        for name in found:
            values = {r[name] for r in records if isinstance(r.get(name), str | int | float)}
            numbers = {number_of(value) for value in values} - {None}
            if wanted is _SPLIT or len(numbers) > 1 or (numbers and (wanted is _RANK or len(records) == 1)):
                return name  # a number that never changes counts nothing: `batch` may be the size of a batch
        return None

    step_name, epoch_name, rank_name, split_name = column(_STEP), column(_EPOCH), column(_RANK), column(_SPLIT)
    if target.choices.step is not None:
        target.chosen_columns.setdefault(f"--step {target.choices.step}", [])
        if target.choices.step in names:
            target.chosen_columns[f"--step {target.choices.step}"].append(str(path))
            step_name = target.choices.step
    time_name = next((name for word in _TIME for name in names if plain[name] == word), None)
    if {*plain.values()} >= {"step", "value", "walltime"} and len(names) == 3:  # TensorBoard's download of one tag
        value_name = next(name for name in names if plain[name] == "value")
        tag = re.sub(r"^.*tag-", "", path.stem)
        records = [{**{k: v for k, v in r.items() if k != value_name}, tag: r.get(value_name)} for r in records]
    by_rank: dict[int, list[Record]] = {}
    for record in records:
        rank = number_of(record.get(rank_name)) if rank_name else None
        mine = int(rank) if rank is not None and 0 <= rank < 10**6 and rank == int(rank) else 0
        by_rank.setdefault(mine, []).append(record)
    about = {step_name, rank_name, time_name, split_name} - {None}
    ranks: dict[int, dict[str, list[Point]]] = {}
    for rank, mine in by_rank.items():
        curves = ranks.setdefault(rank, {})
        for step, record in zip(_numbered(path, mine, step_name, epoch_name, target, rank), mine, strict=True):
            split = str(record.get(split_name, "")).lower() if split_name else ""
            before = f"{split}/" if split in EVALUATION else f"{label}/" if label else ""
            when = time_of(record.get(time_name)) if time_name else None
            for name, given in record.items():
                value = number_of(given) if name not in about else None
                if value is not None:
                    curves.setdefault(before + name, []).append(Point(step, value, when))
    return dict(ranks)


def _numbered(
    path: Path, records: list[Record], step_name: str | None, epoch_name: str | None, target: RunTarget, rank: int
) -> Iterator[int]:
    """The step of each record: as it says, the row where none does; counted on where the counter starts again each epoch."""
    name = step_name or epoch_name
    said = [number_of(record.get(name)) if name else None for record in records]
    whole = [int(n) if n is not None and math.isfinite(n) and n == int(n) and abs(n) < 2**53 else None for n in said]
    whole = _without_epochs(records, whole, epoch_name) if name == step_name else whole
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
        words = f"{path.name} starts counting steps again {resets} times; they are counted on here."
        target.event("steps-numbered", words, rank=rank)
    if again:
        words = f"{path.name} goes back in its steps {again} times, as a training that was resumed does; what came later counts."
        target.event("steps-repeated", words, rank=rank)


def _without_epochs(records: list[Record], steps: list[int | None], epoch_name: str | None) -> list[int | None]:
    """The numbers without those of evaluations that count epochs where the training counts steps, as mmengine writes them."""
    epoch: float | None = None
    told: list[int | None] = []
    before: int | None = None
    for record, step in zip(records, steps, strict=True):
        if epoch_name and epoch_name in record:
            epoch, before = number_of(record[epoch_name]), step
        counts_epochs = (
            epoch_name not in record and step is not None and step == epoch and before is not None and before > step
        )
        told.append(None if counts_epochs else step)
    return told


def number_of(value: Any) -> float | None:
    """The number that a cell holds, NaN and infinity included; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return None
    return None


def time_of(value: Any) -> int | None:
    """Nanoseconds since 1970 of a moment in seconds, milliseconds, microseconds, nanoseconds or ISO 8601; None if it is none."""
    number = number_of(value)
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
