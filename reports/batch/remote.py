"""Runs that lie elsewhere (s3://bucket/sweep, file://…): found by one listing, copied as far as a diagnosis needs them.

pyarrow reads S3, GCS and HDFS by itself; any other address goes through fsspec, where that is installed. What is fetched goes
into a cache of the user's, a folder for each run, and is fetched again only when its size or time has changed there.
"""

import hashlib
import os
import re
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyarrow import fs as pafs

from ...schemas.files.layout import EXIT_JSON, JOURNAL, RUN_JSON
from ..text.errors import NoRunError, ReportError

LEFT_THERE = (".pt", ".pickle", ".reserve", ".tmp")
"""Ends of files that no diagnosis reads: tensors of captures, snapshots, what is being written."""

_AT_ONCE = 8
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a run: its path below the run, bytes, and when it was last written, in ns since 1970."""

    path: str
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run below an address. ``address``: what was given, which may hold credentials; ``base``: the run's path in its file
    system; ``shown``: where it is, for people; ``below``: its path below the address."""

    address: str
    base: str
    shown: str
    below: str
    files: tuple[RemoteFile, ...]


def is_remote(folder: str) -> bool:
    """Whether an argument is an address and no path of this machine."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", folder) is not None


def runs_at(address: str) -> list[RemoteRun]:
    """Every run at or below an address, by one listing. Raises NoRunError for none, ReportError where it cannot be listed."""
    system, base = _open(address)
    shown = _shown(address)
    try:
        found = system.get_file_info(pafs.FileSelector(base, recursive=True))
    except OSError as e:
        raise ReportError(f"{shown}: cannot be listed ({_one_line(e)}); check the address and the credentials") from e
    files: dict[str, list[RemoteFile]] = {}
    listed = [
        (_below(info.path, base), RemoteFile("", int(info.size or 0), int(info.mtime_ns or 0)))
        for info in found
        if info.type == pafs.FileType.File
    ]
    tops = _tops([path for path, _ in listed])
    for path, about in listed:
        top = next((top for top in _parents(path) if top in tops), None)
        if top is not None:
            files.setdefault(top, []).append(
                RemoteFile(path[len(top) + 1 :] if top else path, about.size, about.modified_ns)
            )
    if not files:
        raise NoRunError(f"{shown}: no run at or below it (a run folder holds {RUN_JSON})")
    return [
        RemoteRun(
            address,
            f"{base}/{top}".rstrip("/"),
            f"{shown}/{top}".rstrip("/"),
            top,
            tuple(sorted(files[top], key=lambda f: f.path)),
        )
        for top in sorted(files)
    ]


def cached(run: RemoteRun) -> Path:
    """The folder that holds, or will hold, what was fetched of a run."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePosixPath(run.base).name).strip(".-_")[:60] or "run"
    digest = hashlib.sha256(f"{run.shown}\n{run.address}".encode()).hexdigest()[:16]
    return Path(home) / "firstfault" / "runs" / f"{name}-{digest}"


def fetch(run: RemoteRun) -> Path:
    """Bring the cache up to date; returns the folder. Files that are gone there go here too.

    Raises ReportError where a file cannot be fetched or its name leads out of the folder.
    """
    folder = cached(run)
    wanted = {f.path: f for f in run.files if not f.path.endswith(LEFT_THERE)}
    for path in wanted:
        if any(part in {"", ".", ".."} for part in path.split("/")) or "\\" in path or "\0" in path:
            raise ReportError(f"{run.shown}: {path!r} is no name of a file; the run is left alone")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _drop_others(folder, set(wanted))
        stale = [f for f in wanted.values() if not _is_current(folder / f.path, f)]
        if stale:
            system, _ = _open(run.address)
            with ThreadPoolExecutor(min(_AT_ONCE, len(stale))) as pool:
                for _ in pool.map(lambda f: _copy(system, f"{run.base}/{f.path}", folder / f.path, f), stale):
                    pass
    except ReportError:
        raise
    except Exception as e:  # whatever the library of the file system raises
        raise ReportError(f"{run.shown}: cannot be fetched ({_one_line(e)}); the next batch tries again") from e
    return folder


def _copy(system: pafs.FileSystem, source: str, target: Path, about: RemoteFile) -> None:
    """One file, whole or not there, with the time that it has at its source."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with system.open_input_stream(source) as stream, temporary.open("wb") as file:
        while block := stream.read(_BLOCK):
            file.write(block)
    os.utime(temporary, ns=(about.modified_ns, about.modified_ns))
    temporary.replace(target)


def _is_current(path: Path, about: RemoteFile) -> bool:
    try:
        here = path.stat()
    except OSError:
        return False
    return (here.st_size, here.st_mtime_ns) == (about.size, about.modified_ns)


def _drop_others(folder: Path, wanted: set[str]) -> None:
    """Remove what is not of the run any more: parts that were merged into one would be read twice."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in wanted and not path.name.endswith(".tmp"):
            path.unlink(missing_ok=True)


def _open(address: str) -> tuple[pafs.FileSystem, str]:
    """The file system of an address, and the path in it. Raises ReportError naming what is missing."""
    scheme, shown = address.partition("://")[0].lower(), _shown(address)
    try:
        # what a shell takes for a path may hold blanks; an address may not
        system, path = pafs.FileSystem.from_uri(urllib.parse.quote(address, safe=":/?&=%@+,;~#[]"))
        return system, path.rstrip("/")
    except OSError as e:
        raise ReportError(f"{shown}: cannot be reached ({_one_line(e)}); check the address and the credentials") from e
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        if scheme in {"s3", "gs", "gcs", "hdfs", "file"}:
            raise ReportError(f"{shown}: is no address that pyarrow can read ({_one_line(e)})") from e
    try:
        import fsspec  # noqa: PLC0415 # pyright: ignore[reportMissingImports] # an extra
    except ImportError:
        raise ReportError(
            f"{shown}: {scheme}:// is read through fsspec, which is not installed; pip install 'firstfault[remote]'"
        ) from None
    try:
        of_fsspec, path = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as e:
        raise ReportError(f"{shown}: fsspec cannot read it ({_one_line(e)})") from e
    return pafs.PyFileSystem(pafs.FSSpecHandler(of_fsspec)), str(path).rstrip("/")


def _tops(paths: list[str]) -> set[str]:
    """Folders that are runs, and not within another one."""
    marks = {str(PurePosixPath(p).parent) for p in paths if PurePosixPath(p).name == RUN_JSON}
    journals = {
        p.split(f"/{JOURNAL}/")[0] if f"/{JOURNAL}/" in p else "." for p in paths if JOURNAL in p.split("/")[:-1]
    }
    ends = {str(PurePosixPath(p).parent) for p in paths if PurePosixPath(p).name == EXIT_JSON}
    found = {"" if top == "." else top for top in marks | (journals & ends)}
    return {top for top in found if not any(p in found for p in _parents(top) if p != top)}


def _parents(path: str) -> Iterator[str]:
    """The path itself and the folders above it, outermost first; the root is empty."""
    yield ""
    parts = path.split("/")
    for i in range(1, len(parts) + 1):
        yield "/".join(parts[:i])


def _below(path: str, base: str) -> str:
    return path.removeprefix(base).strip("/") if base else path.strip("/")


def _shown(address: str) -> str:
    """An address without what may be secret: a user, a password, parameters."""
    scheme, _, rest = address.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    host, slash, path = place.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}".rstrip("/")


def _one_line(e: BaseException) -> str:
    return (str(e).splitlines() or [type(e).__name__])[0][:300]
