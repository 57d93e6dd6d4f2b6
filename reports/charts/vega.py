"""Vega, Vega-Lite and vega-embed as one script, for pages that need no network.

vl-convert builds it again in a good second, for the same text each time: it is kept in the user's cache folder, under its
own checksum.
"""

import hashlib
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import vl_convert

from ..text.errors import ReportError


@cache
def vega_bundle() -> str:
    """The script. Raises ReportError if it could not stand inside a page."""
    folder = _folder()
    kept = None if folder is None else _kept(folder)
    if kept is not None:
        return kept
    bundle: str = vl_convert.javascript_bundle()  # pyright: ignore[reportCallIssue]  # its stub asks for more
    if "</script" in bundle.lower() or "<!--" in bundle:
        raise ReportError("this vl-convert has a Vega bundle that no page can hold; install another vl-convert-python")
    if folder is not None:
        _keep(folder, bundle)
    return bundle


def _folder() -> Path | None:
    """The user's cache folder; None for a user without a home."""
    root = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(root) if root else Path.home() / ".cache") / "firstfault"
    except RuntimeError:
        return None


def _name(checksum: str) -> str:
    return f"vega-{version('vl-convert-python')}-{checksum}.js"


def _kept(folder: Path) -> str | None:
    """What an earlier page has left, if it is whole."""
    try:
        for path in folder.glob(_name("*")):
            content = path.read_bytes()
            if path.name == _name(_checksum(content)):
                return content.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # not ours to mend: it is made again
    return None


def _keep(folder: Path, bundle: str) -> None:
    content = bundle.encode("utf-8")
    path = folder / _name(_checksum(content))
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        # a home that cannot be written: the next page takes a second longer
        with suppress(OSError):
            temporary.unlink()


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
