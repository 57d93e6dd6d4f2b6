"""Options of a run from what people write: units on the command line, defaults from firstfault.toml or pyproject.toml.

The nearest file wins: first upwards from the script's folder, then upwards from the current one. Its table is ``[run]`` in
firstfault.toml and ``[tool.firstfault.run]`` in pyproject.toml; keys are the long options without dashes in front.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from ...schemas.part_declarations import read_declarations
from .errors import RecorderError
from .options import Options, profile_plan, snapshot_plan

FILE = "firstfault.toml"
_PYPROJECT = "pyproject.toml"
_OTHER_TABLES = {"rules", "lang"}
"""What of firstfault.toml is for those who read a run: rules, and the language."""

_RECORDER = Path(__file__).parents[1]

_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1} | {
    f"{letter}{end}": (1024 if end == "ib" else 1000) ** power
    for power, letter in enumerate("kmgt", 1)
    for end in ("", "b", "ib")
}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z%]*)\s*")


def share(value: str | float) -> float | None:
    """A share of the step time: ``3%``, ``0.03``; None for ``off``. Raises ValueError."""
    if isinstance(value, str) and value.strip().lower() == "off":
        return None
    number, unit = _number(value)
    if unit not in {"", "%"} or not 0 < (number := number / 100 if unit else number) <= 1:
        raise ValueError("wants a share of the step time, such as 3%, 0.03 or off")
    return number


def duration(value: str | float) -> float:
    """Seconds: ``10m``, ``90s``, ``1h``, ``90``. Raises ValueError."""
    number, unit = _number(value)
    if unit.lower() not in _SECONDS or number <= 0:
        raise ValueError("wants a duration, such as 10m, 90s or 1h")
    return number * _SECONDS[unit.lower()]


def size(value: str | float) -> int:
    """Bytes: ``2GB``, ``500M``, ``1.5 TiB``, ``1000000``. Raises ValueError."""
    number, unit = _number(value)
    if unit.lower() not in _BYTES or number * _BYTES[unit.lower()] < 2**20:
        raise ValueError("wants a size of at least 1 MiB, such as 500M, 2GB or 1TiB")
    return int(number * _BYTES[unit.lower()])


def _number(value: str | float) -> tuple[float, str]:
    if isinstance(value, bool):
        return -1.0, "?"
    if isinstance(value, (int, float)):
        return float(value), ""
    found = _NUMBER.fullmatch(value)
    return (float(found[1]), found[2]) if found else (-1.0, "?")


def _count(value: Any) -> int:
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("wants a whole number from 1 on")
    return value


def _patterns(value: Any) -> list[str]:
    values: Any = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
        raise ValueError("wants names or patterns of names, such as 'blocks.*'")
    return values


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("wants true or false")  # noqa: TRY004 — all of these are one kind of error
    return value


def _watches(value: Any) -> list[str]:
    names = _patterns(value)
    known = [part.name for part in read_declarations(_RECORDER) if part.is_watch]
    unknown = next((name for name in names if known and name not in known), None)
    if unknown is not None:
        raise ValueError(f"there is no watch {unknown!r}; there are {', '.join(known)}")
    return sorted(set(names))


ON_NONFINITE = ("record", "capture", "skip", "stop", "rollback", "restore")


def _on_nonfinite(value: Any) -> str:
    kind, mark, count = str(value).partition(":")
    counted = kind in {"rollback", "restore"} and count.isdigit() and int(count) > 0
    if kind not in ON_NONFINITE or (mark and not counted):
        raise ValueError(
            f"wants one of {', '.join(ON_NONFINITE)}; rollback:N and restore:N after N lost steps in a row"
        )
    return str(value)


def _profile(value: Any) -> str:
    profile_plan(str(value))
    return str(value).strip().lower()


def _snapshots(value: Any) -> str:
    kind, mark, room = str(value).strip().lower().partition(",")
    text = f"{kind},{size(room)}" if mark else kind
    snapshot_plan(text)
    return text


_READ: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "budget": ("budget", share),
    "grace": ("grace_s", duration),
    "every": ("every", _count),
    "include": ("include", _patterns),
    "exclude": ("exclude", _patterns),
    "disk-limit": ("disk_limit_bytes", size),
    "keep": ("keep", _count),
    "on-nonfinite": ("on_nonfinite", _on_nonfinite),
    "snapshots": ("snapshots", _snapshots),
    "memory-history": ("memory_history", _count),
    "profile": ("profile", _profile),
    "hang-timeout": ("hang_timeout_s", duration),
    "hang-kill": ("hang_kill", _yes_or_no),
    "without": ("without", _watches),
    "keep-secrets": ("keep_secrets", _yes_or_no),
}
"""Key of a settings file and option of the command line → field of Options and how it is read."""

OPTIONS = tuple(_READ)
"""Names of all options."""


def resolve(given: Mapping[str, Any], folders: list[Path]) -> Options:
    """Options from the command line (None: not given) over those of the nearest settings file over the defaults.

    ``given`` is keyed like the options; ``folders`` are searched upwards, in order. Raises RecorderError with one sentence
    that names the option or the file and the key.
    """
    fields: dict[str, Any] = {}
    found = find_settings(folders)
    if found is not None:
        path, table = found
        for key, value in table.items():
            known = _READ.get(key.replace("_", "-"))
            if known is None:
                raise RecorderError(f"{path}: there is no option {key!r}; known are {', '.join(_READ)}")
            fields[known[0]] = _read(known[1], value, f"{path}: {key} = {value!r}")
    for key, value in given.items():
        if value is not None and value != []:
            field, read = _READ[key]
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            fields[field] = _read(read, value, f"--{key} {shown}")
    options = msgspec.convert(fields, Options)
    if "captures" in options.without and options.on_nonfinite not in {"record", "capture"}:
        raise RecorderError(f"--without captures: nothing is left that could {options.on_nonfinite.partition(':')[0]}")
    return options


def _read(read: Callable[[Any], Any], value: Any, place: str) -> Any:
    try:
        return read(value)
    except ValueError as e:
        raise RecorderError(f"{place}: {e}") from None


def find_settings(folders: list[Path]) -> tuple[Path, dict[str, Any]] | None:
    """The nearest settings file and its table of options; None where there is none. Raises RecorderError for a file that
    cannot be read or holds a table of firstfault that does not exist."""
    for start in folders:
        for folder in (start.absolute(), *start.absolute().parents):
            for name in (FILE, _PYPROJECT):
                table = _table(folder / name)
                if table is not None:
                    return folder / name, table
    return None


def _table(path: Path) -> dict[str, Any] | None:
    """The options of one file; None where the file is missing or is a pyproject.toml that says nothing of firstfault."""
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except (OSError, UnicodeDecodeError) as e:
        raise RecorderError(f"{path}: cannot be read ({e})") from e
    if path.name == _PYPROJECT and "firstfault" not in text:
        return None  # not ours to judge, even where it is broken
    try:
        content: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise RecorderError(f"{path}: is not TOML ({e})") from e
    if path.name == _PYPROJECT:
        content = content.get("tool", {}).get("firstfault", {})
        if not content:
            return None
    unknown = sorted(set(content) - {"run"} - _OTHER_TABLES)
    if unknown:
        raise RecorderError(f"{path}: there is no table {unknown[0]!r}; options of `firstfault run` go into [run]")
    table = content.get("run", {})
    if not isinstance(table, dict):
        raise RecorderError(f"{path}: run is to be a table, [run]")
    return cast("dict[str, Any]", table)
