"""Check every file of a run folder that is no table: its own checksum, or the one that `checksums.json` has of it.

Parts and journal segments are checked where they are read. Nothing here raises for what a file holds.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..tables import TABLES
from .breadcrumb import look_at_breadcrumb
from .checksums import crc_holds, crc_of_file, listing_of
from .json_text import json_bytes
from .layout import (
    CAPTURES,
    CHECKSUMS_JSON,
    JOURNAL,
    RUN_JSON,
    breadcrumb_path,
    rank_of,
    unwatched_rows_path,
    written_path,
)
from .probe_report import PROBES_JSON
from .proof import PROOF_JSON
from .safe_files import check_file, read_file
from .segments import read_written
from .snapshot import SNAPSHOTS
from .unwatched_rows import read_unwatched_rows

CHANGED = "it is damaged: its content is not what was written"
MISSING = "it is missing"
NO_JSON = "it is damaged: not valid JSON"
UNCHECKED = "it is damaged: files without a checksum of their own were not checked"

_MOST_LISTED = 64 * 2**20
"""Bytes of one file that every reading checks; `firstfault check` checks all."""


class Damage(NamedTuple):
    """A file that is not what was written; ``whole`` is False where it cannot be read at all."""

    path: Path
    what: str


def write_checksums(run: Path) -> None:
    """Write checksums.json of a run that has ended. Raises OSError."""
    target = run / CHECKSUMS_JSON
    content = msgspec.json.format(json_bytes(listing_of(run, _listed(run))), indent=1) + b"\n"
    tmp = target.with_suffix(".json.tmp")
    tmp.write_bytes(content)
    tmp.replace(target)


def damages(run: Path, *, all_bytes: bool = False) -> Iterator[Damage]:
    """Files other than parts and segments that are not what was written. ``all_bytes``: those that are large too."""
    for path in _json_files(run):
        if (why := _wrong_json(path, run)) is not None:
            yield Damage(path, why)
    for path in sorted(breadcrumb_path(run, 0).parent.glob("*.bin")):
        if (why := look_at_breadcrumb(path)[1]) is not None:
            yield Damage(path, why)
    for path in sorted(unwatched_rows_path(run, 0).parent.glob("*.rows")):
        if (why := read_unwatched_rows(path)[1]) is not None:
            yield Damage(path, why)
    for folder in sorted((run / JOURNAL).glob("*")):
        rank = rank_of(folder.name)
        if rank is not None:
            try:
                read_written(run, rank)
            except ValueError:
                yield Damage(written_path(run, rank), "it is damaged: whether the journal is complete is not known")
    yield from _against_listing(run, all_bytes=all_bytes)


def _against_listing(run: Path, *, all_bytes: bool) -> Iterator[Damage]:
    path = run / CHECKSUMS_JSON
    try:
        listing = msgspec.json.decode(read_file(path, run))
        files: Any = listing["files"] if crc_holds(listing) else {}
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        files = {}
    if not files or not isinstance(files, dict):
        yield Damage(path, UNCHECKED)
        return
    for name, said in files.items():
        file = run / name
        match said:
            case [int(size), int() | None as crc]:
                pass
            case _:
                continue
        if "\0" in name:
            yield Damage(run / CHECKSUMS_JSON, "it names what cannot be a file of this run")
            continue
        try:
            check_file(file, run)
            found = file.stat().st_size
        except FileNotFoundError:
            if crc is None or all_bytes:  # a table without a part of it is another table
                yield Damage(file, MISSING)
            continue
        except OSError as e:
            yield Damage(file, str(e.strerror))
            continue
        if found < size and crc is not None:
            yield Damage(file, f"it is damaged: {size - found} of its {size} bytes are missing")
        elif crc is not None and (found > size or ((all_bytes or size <= _MOST_LISTED) and crc_of_file(file) != crc)):
            yield Damage(file, CHANGED)


def _wrong_json(path: Path, run: Path) -> str | None:
    try:
        record = msgspec.json.decode(read_file(path, run))
        return None if isinstance(record, dict) and crc_holds(record) else CHANGED
    except FileNotFoundError:
        return None
    except OSError as e:
        return str(e.strerror)
    except (ValueError, RecursionError):
        return NO_JSON


def _json_files(run: Path) -> list[Path]:
    """Records that carry their own checksum, run.json and exit.json apart: who reads those says what is wrong with them."""
    found = [
        *run.glob("exception-*.json"),
        run / PROOF_JSON,
        run / PROBES_JSON,
        *run.glob(f"{CAPTURES}/*/*.json"),
        *run.glob("processes/*.json"),
        *run.glob("attempts/*/*.json"),
        *run.glob("attempts/*/processes/*.json"),
    ]
    return sorted(p for p in found if not p.parent.name.startswith("."))


def _listed(run: Path) -> Iterable[tuple[Path, bool]]:
    """Files that checksums.json lists: parts and snapshots by their size; not JSON with a checksum, nor what is still written."""
    own = {*_json_files(run), run / RUN_JSON, run / "exit.json", run / "exit.json.reserve", run / CHECKSUMS_JSON}
    for folder, folders, names in os.walk(run):
        here = Path(folder)
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and not (here == run and f in {JOURNAL, "breadcrumb"})
        )
        table = here.parent.name in TABLES and here.parent.parent == run
        by_size = table or (here.name == SNAPSHOTS and here.parent == run)
        for name in sorted(names):
            path = here / name
            if path in own or path.is_symlink() or name.endswith((".tmp", ".bin")) or name.startswith("."):
                continue
            yield path, not (by_size and name.endswith((".parquet", ".safetensors")))
