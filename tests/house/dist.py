"""Builds wheel and sdist, the same bytes each time from the same files: `python tests/house/dist.py dist`.

Times in both are those of the last commit (SOURCE_DATE_EPOCH where it is set). setuptools writes today's time and its user into
an sdist, so that is packed again.
"""

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def epoch(root: Path) -> int:
    """Seconds since 1970 that all files are to bear."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    git = shutil.which("git") or "git"
    said = subprocess.run([git, "-C", root, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
    return (
        int(said.stdout) if said.returncode == 0 and said.stdout.strip() else 315_532_800
    )  # 1980: the oldest a zip can tell


def repacked(sdist: bytes, when: int) -> bytes:
    """The same files in the order of their names, with one time and no user."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist), mode="r:gz") as old,
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=when) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for entry in sorted(old.getmembers(), key=lambda m: m.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.pax_headers = when, 0, 0, "", "", {}
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    return packed.getvalue()


def build(root: Path, out: Path) -> dict[str, str]:
    """File → SHA-256 of what was built."""
    when = epoch(root)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(when), "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, root]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    for sdist in out.glob("*.tar.gz"):
        sdist.write_bytes(repacked(sdist.read_bytes(), when))
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(out.glob("firstfault*"))}


if __name__ == "__main__":
    for name, digest in build(ROOT, Path(sys.argv[1] if len(sys.argv) > 1 else "dist")).items():
        print(f"{digest}  {name}")
