"""Tries the promised versions of Python and torch in environments of their own: `make matrix`.

    python tests/matrix/matrix.py [--python 3.12 3.13] [--torch 2.6.0 none] [--keep FOLDER]

A pair is tested where its interpreter is on this machine and pip finds its build; else it is listed as untested with the reason.
torch `none` is a machine that only reads runs. A build of torch for Linux from the usual index takes some gigabytes.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Promised by pyproject.toml."""

TORCHES = ("2.6.0", "newest", "none")
"""The oldest promised, the newest that pip finds, and none."""

READING = ["tests/analyzer/reading/test_trace.py", "tests/analyzer/diagnosis/test_diagnose.py", "tests/analyzer/rules"]
RECORDING = [
    *["tests/recorder/test_silent.py", "tests/recorder/test_journal.py", "tests/recorder/test_compaction.py"],
    *["tests/recorder/test_moments.py", "tests/recorder/test_optimizers.py", "tests/recorder/test_backward.py"],
    *["tests/recorder/test_api.py", "tests/analyzer/reading/test_integrity.py"],
]
"""Bit-identity, what is written, what is measured, the two doors, damage."""

INSTALL_S = 3600
TEST_S = 3600


def interpreter(version: str) -> str | None:
    """A python of that version: on the path, or one that pyenv has."""
    found = shutil.which(f"python{version}")
    if found and _works(found, version):
        return found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    builds = sorted(
        pyenv.glob(f"{version}.*/bin/python"), key=lambda p: [int(n) for n in p.parts[-3].split(".") if n.isdigit()]
    )
    return next((str(p) for p in reversed(builds) if _works(str(p), version)), None)


def _works(python: str, version: str) -> bool:
    code = "import sys, venv; print('.'.join(map(str, sys.version_info[:2])))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def tried(version: str, torch: str, folder: Path) -> tuple[str, str]:
    """(tested, failed or untested; the reason or what was run) of one pair."""
    python = interpreter(version)
    if python is None:
        return "untested", f"no Python {version} on this machine"
    home = folder / f"python{version}-torch-{torch}"
    if not (home / "bin" / "python").exists():
        subprocess.run([python, "-m", "venv", home], check=True)
    inside = home / "bin" / "python"
    wanted = {"none": [], "newest": ["torch"]}.get(torch, [f"torch=={torch}"])
    commands = [[*wanted]] if wanted else []
    commands.append([f"{ROOT}[analysis]", "pytest", "pytest-xdist"])
    for packages in commands:
        command = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            return "untested", f"{packages[0]} was not installed within an hour"
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            return "untested", (said or ["pip failed"])[-1].removeprefix("ERROR: ")[:160]
    code = "import torch" if wanted else "pass"
    done = subprocess.run([inside, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        return "untested", f"this build cannot be imported: {done.stderr.strip().splitlines()[-1][:120]}"
    tests = [*READING, *RECORDING] if wanted else READING
    command = [inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not suite", *tests]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TEST_S)
    except subprocess.TimeoutExpired:
        return "failed", f"the tests were not done within {TEST_S} s"
    (folder / f"{home.name}.log").write_text(done.stdout + done.stderr, "utf-8")
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1].strip("= ")
    if done.returncode < 0:  # somebody ended it, or it crashed: its last line is dots
        last = f"pytest was ended by signal {-done.returncode}"
    return ("tested" if done.returncode == 0 else "failed"), f"{_versions(inside)}: {last}"


def _versions(python: Path) -> str:
    code = (
        "import importlib.metadata as m, json, platform\n"
        "names = ['torch', 'pyarrow', 'duckdb', 'polars']\n"
        "found = {d.metadata['Name']: d.version for d in m.distributions()}\n"
        "print(json.dumps({'python': platform.python_version(), **{n: found[n] for n in names if n in found}}))"
    )
    said = json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)
    return ", ".join(f"{name} {version}" for name, version in said.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="+", default=list(PYTHONS))
    parser.add_argument("--torch", nargs="+", default=list(TORCHES))
    parser.add_argument("--keep", type=Path, help="Folder for the environments and the logs; else a temporary one.")
    asked = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print("| Python | torch | | |\n|---|---|---|---|", flush=True)
        for python in asked.python:
            for torch in asked.torch:
                kind, words = tried(python, torch, folder)
                failed += kind == "failed"
                print(f"| {python} | {torch} | {kind} | {words} |", flush=True)
                if not asked.keep:
                    shutil.rmtree(folder / f"python{python}-torch-{torch}", ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
