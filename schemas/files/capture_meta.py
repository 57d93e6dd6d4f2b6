"""What is kept of a step in which something was lost: the table of captures, the operators of the replay, meta.json."""

from pathlib import Path
from typing import Any

import msgspec

from .json_text import json_file
from .layout import CAPTURES, META_JSON
from .manifest import SchemaError
from .safe_files import read_file

STOPPED = 86
"""Exit status of a run that --on-nonfinite stop has ended."""


class CaptureMeta(msgspec.Struct, kw_only=True):
    """meta.json of a capture folder. ``files`` says what each file holds; ``missing`` what could not be had or did not fit,
    with the reason; ``operator`` is the first bad one as in table `replays`, null without one."""

    capture: str
    rank: int
    step: int
    microbatch: int
    reason: str
    time_ns: int
    module: str | None = None
    module_class: str | None = None
    operator: dict[str, Any] | None = None
    reproduced: bool | None = None
    note: str | None = None
    stopped: bool = False
    files: dict[str, str] = {}
    missing: list[str] = []
    bytes: int = 0


def read_meta(folder: Path) -> CaptureMeta:
    """meta.json of a capture folder. Raises SchemaError naming the file and the next step."""
    path = folder / META_JSON
    try:
        return msgspec.json.decode(read_file(path, folder.parents[1]), type=CaptureMeta)
    except OSError as e:
        raise SchemaError(
            f"{path}: cannot be read ({e.strerror}); give a folder below captures/ of a run, or the run"
        ) from e
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise SchemaError(f"{path}: was not written by firstfault, or is damaged ({e})") from e


def captures_of(run: Path) -> list[tuple[Path, CaptureMeta]]:
    """Capture folders of a run that are whole, in time order."""
    found: list[tuple[Path, CaptureMeta]] = []
    for path in (run / CAPTURES).glob(f"*/{META_JSON}"):
        if not path.parent.name.startswith("."):
            try:
                found.append((path.parent, read_meta(path.parent)))
            except SchemaError:
                continue
    return sorted(found, key=lambda f: (f[1].time_ns, f[1].rank))


def write_meta(folder: Path, meta: CaptureMeta) -> None:
    """Write meta.json; last of the files, so that a folder with it is whole."""
    (folder / META_JSON).write_bytes(json_file(meta))
