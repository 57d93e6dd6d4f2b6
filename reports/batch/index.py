"""The index over many runs, reduced to plain data, and as the text of index.json."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from ... import __version__
from ...analyzer.diagnosis.run_summary import RunSummary
from ..text.errors import ForeignFileError, ReportError
from ..text.language import say
from ..text.wording import duration, moment, number, plural, show_name, spoken
from .loss_clusters import Cluster, clusters
from .run import BatchRow
from .settings import Split, failing_settings

INDEX_VERSION = 1
VERDICTS = ("anomalous", "unreadable", "inconclusive", "healthy")
"""In the order in which they want to be looked at."""

_WIDTH, _HEIGHT = 96, 22  # of the small loss curve, in its own units


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell shows, and what it is sorted by: a number, or the words themselves where it is None. ``lost``: the number
    was not finite."""

    words: str
    value: float | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One line of the index. ``curve`` is its loss, null where it was not finite."""

    name: str
    href: str | None
    verdict: str
    causes: list[str]
    fault: str
    light: bool
    note: str
    cells: list[Cell]
    curve: list[float | None]


@dataclass(frozen=True, slots=True)
class CauseCount:
    """A cause and in how many runs it is one; ``example`` is the first of them, ``light`` says that it was never more than a
    warning."""

    code: str
    name: str
    runs: int
    example: str
    light: bool


@dataclass(frozen=True, slots=True)
class IndexPage:
    """The whole index. ``complete`` is False while a batch is under way, or where it was stopped; ``refresh_s``:
    seconds after which a browser looks again."""

    version: str
    title: str
    complete: bool
    counts: list[tuple[str, int]]
    causes: list[CauseCount]
    columns: list[str]
    rows: list[IndexRow]
    clusters: list[Cluster]
    splits: list[Split]
    generated: str
    refresh_s: int | None


def reduce_index(rows: Sequence[BatchRow], *, complete: bool, now_ns: int, refresh_s: int | None = None) -> IndexPage:
    """Reduce rows to the page: what wants to be looked at first stands first."""
    counts = Counter(r.summary.verdict for r in rows)
    ordered = sorted(rows, key=lambda r: (VERDICTS.index(r.summary.verdict), r.name))
    return IndexPage(
        version=__version__,
        title=title(rows),
        complete=complete,
        counts=[(v, counts[v]) for v in VERDICTS if counts[v]],
        causes=count_causes(rows),
        columns=["step", "where", "last loss", "best loss", "steps", "time", "ended", "started"],
        rows=[_row(r) for r in ordered],
        clusters=clusters(rows),
        splits=failing_settings(rows),
        generated=moment(now_ns),
        refresh_s=refresh_s,
    )


def title(rows: Sequence[BatchRow]) -> str:
    """How many runs came out how, in a sentence."""
    counts = Counter(r.summary.verdict for r in rows)
    said = say(", ").join(f"{number(counts[v])} {say(v)}" for v in VERDICTS if counts[v])
    return say("{runs}: {said}", runs=plural(len(rows), "run"), said=said) if rows else say("No run judged yet")


def count_causes(rows: Sequence[BatchRow]) -> list[CauseCount]:
    """Causes over all runs, the most frequent first; those that were only ever warnings after the others."""
    found: dict[str, list[tuple[BatchRow, dict[str, Any]]]] = {}
    for row in rows:
        for finding in row.summary.findings:
            if finding["role"] == "cause":
                found.setdefault(finding["name"], []).append((row, finding))
    counts = [
        CauseCount(
            code=hits[0][1]["code"],
            name=name,
            runs=len({r.slug for r, _ in hits}),
            example=hits[0][0].name,
            light=all(f["severity"] == "warning" for _, f in hits),
        )
        for name, hits in found.items()
    ]
    return sorted(counts, key=lambda c: (c.light, -c.runs, c.name))


def index_json(rows: Sequence[BatchRow], *, complete: bool) -> bytes:
    """index.json: the rows by name without their findings, which findings.parquet has."""
    counts = Counter(r.summary.verdict for r in rows)
    runs: list[dict[str, Any]] = []
    for row in rows:
        summary = msgspec.to_builtins(row.summary)
        del summary["findings"]
        runs.append({"name": row.name, "path": row.path, "page": row.page, "fresh": row.fresh, **summary})
    causes = [{"code": c.code, "name": c.name, "runs": c.runs, "warning": c.light} for c in count_causes(rows)]
    said = {
        "schema_version": INDEX_VERSION,
        "generator": f"firstfault {__version__}",
        "complete": complete,
        "counts": {v: counts[v] for v in VERDICTS},
        "causes": causes,
        "settings": [asdict(s) for s in failing_settings(rows)],
        "runs": runs,
    }
    return msgspec.json.format(msgspec.json.encode(said), indent=1) + b"\n"


def check_out(out: Path, *, force: bool) -> None:
    """Raise ForeignFileError where ``out`` holds anything and no index of ours: its files could be somebody's."""
    if out.exists() and not out.is_dir():
        raise ReportError(f"{out}: is a file; name a folder for the index and the pages")
    try:
        if force or not out.exists() or not any(out.iterdir()):
            return
        said = msgspec.json.decode((out / "index.json").read_bytes(), type=dict[str, Any])
        ours = str(said.get("generator", "")).startswith("firstfault")
    except (FileNotFoundError, msgspec.MsgspecError):
        ours = False
    except OSError as e:
        raise ReportError(f"{out}: cannot be read ({e.strerror}); choose another place with -o") from e
    if not ours:
        raise ForeignFileError(f"{out}: holds files and no index of firstfault; name another folder, or give --force")


def _row(row: BatchRow) -> IndexRow:
    s = row.summary
    light = s.severity == "warning"
    note = s.error or s.message or ""
    gone = s.loss_finite is False
    last = Cell(say("NaN or Inf") if gone else _number(s.loss_last), s.loss_last, gone)
    return IndexRow(
        name=show_name(row.name),
        href=row.page,
        verdict=s.verdict,
        causes=s.causes,
        fault=_fault(s),
        light=light,
        note=show_name(note, empty=""),
        cells=[
            Cell("" if s.step is None else number(s.step), s.step),
            Cell("" if s.module is None or light else show_name(s.module)),
            last,
            Cell(_number(s.loss_best), s.loss_best),
            Cell("" if s.steps is None else number(s.steps), s.steps),
            Cell("" if s.seconds is None else duration(s.seconds * 1e9), s.seconds),
            Cell(say((s.status or "").replace("-", " "))),
            Cell("" if s.started_ns is None else moment(s.started_ns).removesuffix(" UTC"), s.started_ns),
        ],
        curve=s.loss_curve,
    )


def _fault(s: RunSummary) -> str:
    if s.verdict == "unreadable":
        return say("cannot be read")
    return "" if s.fault is None else show_name(spoken(s.fault))


def _number(value: float | None) -> str:
    return "" if value is None else number(value)


def loss_paths(curve: Sequence[float | None]) -> tuple[list[str], list[float]]:
    """SVG paths of a small curve, a new one after each gap, and the x of the gaps; in a box of 96 × 22."""
    known = [v for v in curve if v is not None]
    if not curve:
        return [], []
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    width = max(1, len(curve) - 1)
    paths: list[list[str]] = [[]]
    lost: list[float] = []
    for i, value in enumerate(curve):
        x = round(i * _WIDTH / width, 1)
        if value is None:
            lost.append(x)
            paths.append([])
            continue
        y = _HEIGHT / 2 if high == low else _HEIGHT - 1 - (value - low) / (high - low) * (_HEIGHT - 2)
        paths[-1].append(f"{x:g} {y:.1f}")
    return ["M" + "L".join(p) for p in paths if len(p) > 1], lost
