"""What /proc tells of a process that has torch loaded: how it was started, and why the recorder can be missing in it."""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from ...schemas.files.layout import ENV_RUN
from ...schemas.files.secrets import Redactor

INJECT = Path(__file__).parents[1] / "inject"
"""Folder of the sitecustomize that attaches the recorder."""

_LIBRARY = re.compile(
    r"^(?P<start>[0-9a-f]+)-.*? (?P<path>/[^\n]*/libtorch(?:_cpu|_cuda|_python)?\.so[^\n]*)$", re.MULTILINE
)
_LONGEST_COMMAND = 100
_WITH_VALUE = "WX"
"""Options of the interpreter that take the next word."""


@dataclass(frozen=True, slots=True)
class TorchProcess:
    """A process with torch mapped. ``address`` is the same in a process and in its forks, and differs after an exec."""

    pid: int
    command: tuple[str, ...]
    library: Path
    address: str
    python: bool
    """Whether torch's bindings for Python are loaded."""
    run: str | None
    """Its FIRSTFAULT_RUN when it was started."""
    python_path: tuple[str, ...]
    site: Path
    """Where its torch is installed: the packages of its own virtual environment, or the folder that torch was loaded from."""

    def shown(self, secrets: Redactor) -> str:
        """Its number and command line, for people."""
        line = " ".join(shlex.join(secrets.arguments(self.command)).split())
        cut = line if len(line) <= _LONGEST_COMMAND else f"{line[:_LONGEST_COMMAND]} …"
        return f"{self.pid} ({cut})"


def torch_process(pid: int) -> TorchProcess | None:
    """The process, if it has torch mapped and may be looked at."""
    folder = Path(f"/proc/{pid}")
    try:
        maps = (folder / "maps").read_text("utf-8", "surrogateescape")
        found = _LIBRARY.search(maps)
        if found is None:
            return None
        command = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        environment = (folder / "environ").read_bytes().split(b"\0")
        where = (folder / "cwd").readlink()
    except OSError:
        return None  # it has just ended, or belongs to somebody else
    variables: dict[str, str] = {}
    for entry in environment:
        name, _, value = os.fsdecode(entry).partition("=")
        variables[name] = value
    library = Path(found["path"])
    return TorchProcess(
        pid=pid,
        command=tuple(word.decode("utf-8", "backslashreplace") for word in command),
        library=library,
        address=found["start"],
        python="/libtorch_python.so" in maps,
        run=variables.get(ENV_RUN),
        python_path=tuple(filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))),
        site=_site_packages(where / os.fsdecode(command[0]), library),
    )


def _site_packages(interpreter: Path, library: Path) -> Path:
    """A virtual environment may hold torch as a link to a store elsewhere; its own packages are what its Python sees."""
    environment = interpreter.parent.parent
    if (environment / "pyvenv.cfg").exists():
        own = next((site for site in environment.glob("lib/python*/site-packages") if (site / "torch").exists()), None)
        if own is not None:
            return own
    return library.parents[2] if len(library.parents) > 2 else library.parent


def why_unrecorded(process: TorchProcess, failure: str | None) -> tuple[str, str]:
    """A code of schemas.unrecorded.REASONS and what it names: the first reason that can be checked from outside.

    ``failure`` is what the process itself noted.
    """
    if failure is not None:
        return "attach-failed", failure
    if not process.python:
        return "no-python", process.library.name
    if not process.run:
        return "no-run-variable", ""
    flag = next((f for f in _flags(process.command) if f in "IES"), None)
    if flag is not None:
        return "python-flag", f"-{flag}"
    if str(INJECT) not in process.python_path:
        return "pythonpath", str(INJECT)
    earlier = process.python_path[: process.python_path.index(str(INJECT))]
    hides = next((f for folder in earlier if (f := Path(folder) / "sitecustomize.py").exists()), None)
    if hides is not None:
        return "other-sitecustomize", str(hides)
    if not any(_holds_firstfault(folder) for folder in _places(process)):
        return "no-firstfault", str(process.site)
    return "unknown", ""


def _flags(command: tuple[str, ...]) -> str:
    """Letters of the interpreter's own options, up to the script or module."""
    letters = ""
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word in {"-", "--"}:
            break
        if word.startswith("--"):
            continue
        for place, letter in enumerate(word[1:], 1):
            if letter in "cm":
                return letters
            if letter in _WITH_VALUE:
                if place == len(word) - 1:
                    next(words, None)
                break
            letters += letter
    return letters


def _places(process: TorchProcess) -> list[Path]:
    """Where its interpreter may find packages: beside torch, in its own environment, on PYTHONPATH."""
    own = Path(process.command[0]).parent.parent if process.command[0].startswith("/") else None
    return [
        process.site,
        *(own.glob("lib/python*/site-packages") if own is not None else []),
        *(Path(folder) for folder in process.python_path),
    ]


def _holds_firstfault(folder: Path) -> bool:
    patterns = ("firstfault/__init__.py", "firstfault-*.dist-info", "__editable__*firstfault*")
    return any(any(folder.glob(pattern)) for pattern in patterns)
