"""The run folders below some folders, their names in an index, and when one has changed."""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import __version__
from ...analyzer import RuleSet
from ...analyzer.language import language
from ...analyzer.rules.rule import Rule
from ...schemas.files.layout import EXIT_JSON, JOURNAL, RUN_JSON
from ..text.errors import NoRunError
from .remote import RemoteRun, cached, is_remote, runs_at

_SLUG = 60  # characters of a folder's name that its page bears


@dataclass(frozen=True, slots=True)
class RunPlace:
    """One run folder. ``name``: its path below the folder that was given, as text. ``slug``: a file name of letters, digits
    and .-_ alone, made of the folder's name and a hash of its whole path, so that no two runs share one. ``remote``: where
    it is fetched from; ``path`` is then where it is fetched to."""

    path: Path
    name: str
    slug: str
    remote: RemoteRun | None = None

    @property
    def shown(self) -> str:
        """Where the run lies, as text."""
        return self.remote.shown if self.remote is not None else printable(self.path)


def find_runs(folders: Sequence[Path | str]) -> list[RunPlace]:
    """Every run folder at or below ``folders``, paths or addresses (s3://…), in the order of their names; one that is reached
    twice counts once.

    A folder that looks like a run without its run.json is one too: what is wrong with it is said where it is read. Links to
    run folders are followed, other links are not. Raises NoRunError where there is none, ReportError for an address that
    cannot be listed.
    """
    found: dict[Path, RunPlace] = {}
    for given in folders:
        if is_remote(str(given)):
            places = [_place(run, alone=len(folders) == 1) for run in runs_at(str(given))]
            found |= {place.path: place for place in places if place.path not in found}
            continue
        folder = Path(given)
        if not folder.is_dir():
            raise NoRunError(f"{folder}: no such folder; give folders that hold runs of `firstfault run`")
        for path in _runs(folder):
            real = path.resolve()
            if real not in found:
                found[real] = RunPlace(path, _name(path, folder, alone=len(folders) == 1), _slug(real))
    if not found:
        named = ", ".join(str(f) for f in folders)
        raise NoRunError(f"{named}: no run at or below it (a run folder holds {RUN_JSON})")
    return sorted(found.values(), key=lambda p: p.name)


def _place(run: RemoteRun, *, alone: bool) -> RunPlace:
    folder = cached(run)
    name = printable((run.below or run.shown.rpartition("/")[2]) if alone else run.shown)
    return RunPlace(folder, name, _slug(folder), run)


def state_key(place: RunPlace, rules: RuleSet) -> str:
    """A hash that changes when a file of the run (by size and time, not contents), the rules, the language or firstfault does.

    Raises OSError where the folder cannot be listed.
    """
    digest = hashlib.sha256(f"{__version__} {language()}\n".encode())
    digest.update(_rules_digest.of(rules.rules))
    digest.update(repr(rules.changes).encode())
    remote = place.remote.files if place.remote is not None else None
    files = _files(place.path) if remote is None else [(f.path, f.size, f.modified_ns) for f in remote]
    for path, size, modified in files:
        digest.update(os.fsencode(path) + f"\0{size}\0{modified}\n".encode())
    return digest.hexdigest()


class _RulesDigest:
    """A hash of rules, kept for the next run: nearly all are judged by the same rules, and hashing them takes milliseconds."""

    def __init__(self) -> None:
        self._rules: tuple[Rule, ...] = ()
        self._value = b""

    def of(self, rules: tuple[Rule, ...]) -> bytes:
        if len(rules) != len(self._rules) or any(a is not b for a, b in zip(rules, self._rules, strict=True)):
            digest = hashlib.sha256()
            for rule in rules:
                digest.update(f"{rule.header!r}\n{rule.sql}\n".encode())
            self._rules, self._value = rules, digest.digest()
        return self._value


_rules_digest = _RulesDigest()


def printable(path: Path | str) -> str:
    """A path as text that any file can hold: bytes that are not UTF-8 become visible escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _runs(folder: Path) -> Iterator[Path]:
    if _is_run(folder):
        yield folder
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except OSError:
        return  # not ours to read: other people's folders may lie between the runs
    for entry in entries:
        path = folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _runs(path)
        elif entry.is_symlink() and path.is_dir() and _is_run(path):
            yield path


def _is_run(folder: Path) -> bool:
    try:
        return (folder / RUN_JSON).exists() or ((folder / EXIT_JSON).exists() and (folder / JOURNAL).is_dir())
    except OSError:
        return False


def _files(run: Path) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    waiting = [run]
    while waiting:
        folder = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                    continue
                about = entry.stat(follow_symlinks=False)
                found.append((os.path.relpath(entry.path, run), about.st_size, about.st_mtime_ns))
    return sorted(found)


def _name(path: Path, folder: Path, *, alone: bool) -> str:
    below = path.relative_to(folder)
    if below == Path():
        return printable(path.resolve().name if alone else path)
    return printable(below if alone else path)


def _slug(real: Path) -> str:
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", real.name).strip(".-_")[:_SLUG]
    return f"{readable or 'run'}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:10]}"
