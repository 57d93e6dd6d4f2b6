"""Creates a run folder and its run.json: what was started, with which versions, from which commit.

Used by the supervisor and by the Python API. Nothing here imports torch: versions come from the installed metadata.
"""

import hashlib
import os
import platform
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from ... import __version__
from ...schemas import RunManifest, write_json
from ...schemas.files.layout import RUN_JSON
from ...schemas.files.secrets import Redactor
from ..base.errors import RecorderError

DEFAULT_PARENT = "firstfault-runs"
"""Folder, in the current one, under which runs without --out are kept."""

PACKAGES = (
    "torch",
    "pyarrow",
    "numpy",
    "torchvision",
    "transformers",
    "accelerate",
    "lightning",
    "pytorch-lightning",
    "deepspeed",
)
"""Packages whose version, where installed, explains a difference between two runs."""

_GIT_TIMEOUT_S = 5
_UNSAFE = re.compile(r"[^\w.+-]+")


def create_run(
    out: Path | None,
    *,
    argv: list[str],
    script: str,
    name: str | None = None,
    supervised: bool = True,
    config: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Path:
    """Make the folder, write run.json, return the folder's absolute path.

    ``out`` must be new or an empty folder; without it the run goes to ``firstfault-runs/<UTC time>-<name>-<4 hex>``,
    ``name`` being the script's stem unless given. ``script`` is a path, or ``-m module``. Raises RecorderError,
    never overwrites.
    """
    label = _UNSAFE.sub("-", name or Path(script.removeprefix("-m ")).stem).strip("-.") or "run"
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    run_id = f"{stamp}-{label[:80]}-{secrets.token_hex(2)}"
    run = _make_folder(out if out is not None else Path(DEFAULT_PARENT) / run_id)
    manifest = describe_start(run_id, argv=argv, script=script, supervised=supervised, config=config, options=options)
    try:
        write_json(run / RUN_JSON, manifest)
    except OSError as e:
        raise RecorderError(
            f"{run / RUN_JSON}: cannot be written ({e.strerror}); choose another folder with --out"
        ) from e
    return run


def describe_start(
    run_id: str,
    *,
    argv: list[str],
    script: str,
    supervised: bool = True,
    config: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> RunManifest:
    """What is being started here and now, as run.json says it."""
    commit, dirty = git_state(_folder_of(script))
    hidden = Redactor(argv, os.environ, keep=bool((options or {}).get("keep_secrets")))
    return RunManifest(
        run_id=run_id,
        firstfault_version=__version__,
        argv=[printable(a) for a in hidden.arguments(argv)],
        script=printable(script),
        script_sha256=_content_hash(script),
        cwd=printable(os.getcwd()),  # noqa: PTH109 - a string that may hold undecodable bytes
        started_ns=time.time_ns(),
        hostname=socket.gethostname(),
        pid=os.getpid(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        platform=_platform(),
        versions=installed_versions(),
        git_commit=commit,
        git_dirty=dirty,
        supervised=supervised,
        config=hidden.value(config or {}),
        options=options or {},
    )


def _platform() -> str:
    """As platform.platform() has it, which starts `uname` for a processor that it then leaves out."""
    system = platform.uname()
    return "-".join((system.system, system.release, system.machine, "with", "".join(platform.libc_ver())))


def _content_hash(script: str) -> str | None:
    """SHA-256 of the script; None for a module, or where it cannot be read."""
    try:
        return None if script.startswith("-m ") else hashlib.sha256(Path(script).read_bytes()).hexdigest()
    except OSError:
        return None


def printable(text: str) -> str:
    """Text that JSON can hold: bytes of a file name that are not UTF-8 become visible escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def installed_versions() -> dict[str, str]:
    """Versions of PACKAGES, of those that are installed, and of the interpreter's path."""
    found = {"executable": printable(sys.executable)}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout that holds ``folder`` and whether tracked files differ from it; nulls where it is none
    or git is missing."""
    git = shutil.which("git")
    if git is None:
        return None, None

    def ask(*arguments: str) -> str | None:
        try:
            answer = subprocess.run(
                [git, "--no-optional-locks", "-C", str(folder), *arguments],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_GIT_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return answer.stdout.decode("utf-8", "replace").strip() if answer.returncode == 0 else None

    commit = ask("rev-parse", "--verify", "HEAD")
    if commit is None:
        return None, None
    changes = ask("status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


def _folder_of(script: str) -> Path:
    return Path() if script.startswith("-m ") or script == "-" else Path(script).parent


def _make_folder(run: Path) -> Path:
    run = run.absolute()
    try:
        run.mkdir(parents=True)
    except FileExistsError:
        if not run.is_dir():
            raise RecorderError(f"{run}: is a file, not a folder; choose another folder with --out") from None
        try:
            used = any(run.iterdir())
        except OSError as e:
            raise RecorderError(f"{run}: cannot be read ({e.strerror}); choose another folder with --out") from e
        if used:
            raise RecorderError(
                f"{run}: is not empty, and a run is never overwritten; choose a new folder with --out"
            ) from None
    except OSError as e:
        raise RecorderError(f"{run}: cannot be created ({e.strerror}); choose a writable folder with --out") from e
    if not os.access(run, os.W_OK | os.X_OK):
        raise RecorderError(f"{run}: is not writable; choose another folder with --out")
    return run
