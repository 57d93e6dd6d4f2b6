"""What `firstfault batch` costs over hundreds of runs: processor seconds cold and incremental, memory, size of the index.

    python tests/benchmarks/batch_of_many.py RECORDED [--runs 300] [--jobs 2] [--out FOLDER]

RECORDED holds a dozen different runs, say of scripts in tests/corpus; they are copied under other names, times and settings until
there are enough. One in the middle is torn. The processor seconds are those of the command and its processes, which a busy
machine does not stretch as much as wall clock; peak memory is the largest process of them.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def make_runs(recorded: Path, target: Path, count: int) -> None:
    """Copies of recorded runs with settings of their own, and a torn one in the middle."""
    sources = sorted(p.parent for p in recorded.glob("*/run.json"))
    if not sources:
        sys.exit(f"{recorded}: holds no runs")
    for i in range(count):
        source = sources[i % len(sources)]
        run = target / f"lr-{i % 5}" / f"{i:03d}-{source.name}"
        shutil.copytree(source, run)
        manifest = json.loads((run / "run.json").read_text())
        settings = {"lr": 10.0 ** -(i % 5 + 1), "seed": i % 7, "script": source.name}
        manifest |= {"run_id": run.name, "config": settings, "started_ns": manifest["started_ns"] + i * 60_000_000_000}
        manifest.pop("crc32", None)
        (run / "run.json").write_text(json.dumps(manifest) if i != count // 2 else '{"run_id": ')


def measured(command: list[str]) -> dict[str, float]:
    """Seconds and memory of a command with all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in {0, 1, 3} or "Traceback" in done.stderr:
        sys.exit(done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": round(wall, 1), "cpu_s": round(cpu, 1), "peak_mb": round(after.ru_maxrss / 1024)}


def main() -> None:
    """Make the runs, judge them twice, and once more after one of them has changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", type=Path)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    folder = given.out or Path(tempfile.mkdtemp(prefix="firstfault-batch-"))
    tree, out = folder / "tree", folder / "out"
    make_runs(given.recorded, tree, given.runs)
    command = [sys.executable, "-m", "firstfault", "batch", str(tree), "-o", str(out), "-j", str(given.jobs)]
    print("cold       ", measured(command), flush=True)
    print("unchanged  ", measured(command), flush=True)
    first = next(tree.rglob("output.log"))
    first.write_text(first.read_text() + "one line more\n")
    print("one changed", measured(command), flush=True)
    index = json.loads((out / "index.json").read_text())
    print(
        "verdicts   ", {v: sum(r["verdict"] == v for r in index["runs"]) for v in {r["verdict"] for r in index["runs"]}}
    )
    print(
        "index.html ",
        (out / "index.html").stat().st_size,
        "bytes; all pages",
        sum(p.stat().st_size for p in out.rglob("*")),
    )


if __name__ == "__main__":
    main()
