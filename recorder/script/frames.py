"""Which code of the script is running: the innermost frame outside torch, firstfault and the standard library.

Only code objects and positions are read, never local variables.
"""

import linecache
import os
import sys
import sysconfig
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import torch

FIRSTFAULT = __name__.partition(".")[0]
"""Name of the top-level package that firstfault itself is."""

_FIRSTFAULT_FOLDERS = tuple(str(Path(__file__).parents[2] / room) + os.sep for room in ("recorder", "schemas"))
"""The rooms of which code runs in a training process; the demo's script lies in another one, and is a script like any."""
_LIBRARIES = (*(str(Path(folder)) + os.sep for folder in torch.__path__), *_FIRSTFAULT_FOLDERS)
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep
_PACKAGES = tuple({sysconfig.get_paths()[key] + os.sep for key in ("purelib", "platlib")})
_scripts: dict[str, bool] = {}
"""File → is_script(file)."""


class Place(NamedTuple):
    """A position in the script's code: cheap to take, put into words only when it is wanted."""

    code: CodeType
    instruction: int

    def words(self) -> tuple[str, str | None]:
        """(``file:line in function``, the expression there or its line; None where the source cannot be read)."""
        line, end, first, last = next(
            islice(self.code.co_positions(), self.instruction // 2, None), (None, None, None, None)
        )
        line = line or self.code.co_firstlineno
        file = self.code.co_filename
        text = linecache.getline(file, line)
        where = f"{shown(file)}:{line} in {self.code.co_name}"
        if not text.strip():
            return where, None
        if end == line and first is not None and last is not None:
            expression = text.encode()[first:last].decode(errors="replace").strip()  # columns count bytes
            if expression:
                return where, expression
        return where, text.strip()


def script_place(frame: FrameType | None, end: CodeType | None = None) -> Place | None:
    """Place of the innermost frame of the script from ``frame`` outwards, up to a frame that runs ``end``."""
    while frame is not None:
        code = frame.f_code
        if code is end:
            return None
        known = _scripts.get(code.co_filename)
        if known is None:
            known = _scripts[code.co_filename] = is_script(code.co_filename)
        if known:
            return Place(code, frame.f_lasti)
        frame = frame.f_back
    return None


def caller() -> Place | None:
    """Place of the script's code that is running now."""
    return script_place(sys._getframe(1))


def outside(frame: FrameType | None) -> FrameType | None:
    """The innermost frame from ``frame`` outwards that runs no code of firstfault."""
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def script_line(frame: FrameType | None) -> str:
    """Text of the line that the innermost frame of the script from ``frame`` outwards is at; empty where it cannot be read."""
    frame = script_frame(frame)
    return "" if frame is None else linecache.getline(frame.f_code.co_filename, frame.f_lineno)


def script_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the script from ``frame`` outwards."""
    while frame is not None and not is_script(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def is_script(file: str) -> bool:
    """Whether a file is the script's own or of a package it uses, outside torch, firstfault and the standard library."""
    if file.startswith(("<frozen", *_LIBRARIES)):
        return False
    return file.startswith(_PACKAGES) or not file.startswith(_STANDARD)


def is_users(file: str) -> bool:
    """Whether a file is the script's own, not that of an installed package."""
    return is_script(file) and not is_installed(file)


def is_installed(file: str) -> bool:
    """Whether a file is of the standard library or of an installed package, or is no file at all."""
    return file.startswith(("<", _STANDARD, *_PACKAGES)) or "site-packages" in file or "dist-packages" in file


def is_ours(file: str) -> bool:
    """Whether a file is firstfault's own."""
    return file.startswith(_FIRSTFAULT_FOLDERS)


def shown(file: str) -> str:
    """Relative to the current folder where the file lies below it."""
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file
