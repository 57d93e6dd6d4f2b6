"""Check a whole run folder: every byte that has a checksum, and what is known of the rest."""

from dataclasses import dataclass
from pathlib import Path

from ...schemas import TABLES, SchemaError
from ...schemas.files.integrity import damages
from ...schemas.files.layout import CHECKSUMS_JSON, RUN_JSON, parts, segments
from ...schemas.files.manifest import UNKNOWN_END, rescue_exit, rescue_manifest
from ...schemas.files.seals import read_seal
from ..errors import NotARunError, UnreadableRunError
from .sources import Problem, find_sources


@dataclass(frozen=True, slots=True)
class Checked:
    """What a folder holds and what is wrong with it. ``unsealed`` parts were written without a checksum."""

    parts: int
    part_bytes: int
    segments: int
    unsealed: int
    listed: bool
    """Whether there is a list of the checksums of its other files: it is written when a run ends."""
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
    _, problems = find_sources(run, ended=closed, newest_schema=manifest.schema_version, every_byte=True)
    found = [(run / RUN_JSON, why), (exit_path, why_exit), *damages(run, all_bytes=True)]
    problems = [Problem(str(path), what) for path, what in found if what is not None] + problems
    paths = [part.path for table in TABLES for part in parts(run, table)]
    return Checked(
        parts=len(paths),
        part_bytes=sum(path.stat().st_size for path in paths),
        segments=len(segments(run)),
        unsealed=sum(_unsealed(path) for path in paths),
        listed=(run / CHECKSUMS_JSON).exists(),
        problems=problems,
    )


def _unsealed(path: Path) -> bool:
    try:
        return read_seal(path, rows=False).state == "unsealed"
    except OSError:
        return False
