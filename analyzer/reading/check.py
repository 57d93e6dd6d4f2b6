"""Check a whole run folder: every byte that has a checksum, and what is known of the rest."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...schemas import TABLES, SchemaError
from ...schemas.files.integrity import damages
from ...schemas.files.layout import CHECKSUMS_JSON, RUN_JSON, parts, segments
from ...schemas.files.manifest import UNKNOWN_END, rescue_exit, rescue_manifest
from ...schemas.files.seals import read_seal
from ..errors import NotARunError, UnreadableRunError
from .sources import Problem, Source, find_sources


@dataclass(frozen=True, slots=True)
class Way:
    """How processes measured tensors in the host's memory: the ``instructions`` of the C library, or why it was not used."""

    instructions: str | None
    without_library: str | None
    ranks: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What a folder holds and what is wrong with it. ``unsealed`` parts were written without a checksum."""

    parts: int
    part_bytes: int
    segments: int
    unsealed: int
    listed: bool
    """Whether there is a list of the checksums of its other files: it is written when a run ends."""
    ways: list[Way]
    problems: list[Problem]


def check(run: Path) -> Checked:
    """Read every file of a run folder. Raises NotARunError, and UnreadableRunError for a newer schema."""
    if not (run / RUN_JSON).exists():
        raise NotARunError(f"{run}: not a run folder (no {RUN_JSON} in it); give a folder that `firstfault run` wrote")
    try:
        manifest, why = rescue_manifest(run)
        ended, exit_path, why_exit = rescue_exit(run)
    except SchemaError as e:
        raise UnreadableRunError(str(e)) from e
    closed = ended is not None and ended.status in {"completed", "exception", UNKNOWN_END}
    sources, problems = find_sources(run, ended=closed, newest_schema=manifest.schema_version, every_byte=True)
    found = [(run / RUN_JSON, why), (exit_path, why_exit), *damages(run, all_bytes=True)]
    problems = [Problem(str(path), what) for path, what in found if what is not None] + problems
    paths = [part.path for table in TABLES for part in parts(run, table)]
    return Checked(
        parts=len(paths),
        part_bytes=sum(path.stat().st_size for path in paths),
        segments=len(segments(run)),
        unsealed=sum(_unsealed(path) for path in paths),
        listed=(run / CHECKSUMS_JSON).exists(),
        ways=_ways(sources["ranks"]),
        problems=problems,
    )


def _ways(ranks: Source) -> list[Way]:
    """Of the ranks that say it, the most frequent way first."""
    last = {row["rank"]: (row["instructions"], row["without_library"]) for row in _rows_of_ranks(ranks)}
    told = [way for way in last.values() if any(way)]
    return [Way(*way, told.count(way)) for way in sorted(set(told), key=lambda way: (-told.count(way), str(way)))]


def _rows_of_ranks(ranks: Source) -> Iterator[dict[str, Any]]:
    columns = ["rank", "instructions", "without_library"]
    for path, held in ranks.parts:
        if held.issuperset(columns):
            try:
                yield from pq.ParquetFile(path).read(columns, use_threads=False).to_pylist()
            except (pa.ArrowException, OSError):  # damaged, which is told elsewhere
                continue
    for table in ranks.journal:
        if {*columns} <= {*table.column_names}:
            yield from table.select(columns).to_pylist()


def _unsealed(path: Path) -> bool:
    try:
        return read_seal(path, rows=False).state == "unsealed"
    except OSError:
        return False
