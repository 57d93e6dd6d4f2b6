"""SIGKILL at random moments of a training: what is lost.

    python tests/benchmarks/kills.py [--kills 20] [--seed 0] [--quiet]

Each time two ranks under torchrun, of which everything is recorded, train until, some random moment after their first step,
one rank (even numbers) or the supervisor, torchrun and both ranks (odd numbers) are killed. With ``--quiet`` one process trains
a model so small that under the default budget most of its steps go unwatched; the script, or the supervisor and the script, are
killed. A step that `optimizer.step()` has returned from counts as completed. It is lost if the recording does not count it: as
a completed row of `steps`, within a row of `unwatched_steps`, or in the breadcrumb. It is unreadable if its row is there and
the tensor statistics of the step are not, or not all; of the quiet ones, if the breadcrumb alone knows it, so that its loss is
gone. Rows that stand twice are counted too.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from firstfault.analyzer import Trace, diagnose

SCRIPTS = Path(__file__).parents[1] / "recorder" / "scripts"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


class Left(NamedTuple):
    """What one kill left of one rank's steps."""

    completed: int
    lost: int
    unreadable: int
    doubled: int
    quiet: int = 0
    """Of the completed ones, those that went unwatched."""


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie that nobody waits for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def kill_one(folder: Path, chance: random.Random, *, everything: bool) -> list[Left]:
    """Start, kill, and count for each rank. Raises RuntimeError if the training ends by itself."""
    run, returned = folder / "run", [folder / f"returned-{rank}" for rank in (0, 1)]
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--budget", "off", "--out", str(run), *TORCHRUN]
    supervisor = subprocess.Popen([*command, str(SCRIPTS / "endless_ranks.py"), str(folder)], stderr=subprocess.DEVNULL)
    while not all(path.exists() and path.stat().st_size for path in returned):
        if supervisor.poll() is not None:
            raise RuntimeError(f"the training ended with {supervisor.returncode} before it was killed")
        time.sleep(0.01)
    children = Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()
    ranks = [int((folder / f"pid-{rank}").read_text()) for rank in (0, 1)]
    time.sleep(chance.uniform(0, 3))
    if everything:
        supervisor.kill()
        for pid in (int(children[0]), *ranks):
            os.kill(pid, signal.SIGKILL)
    else:
        os.kill(chance.choice(ranks), signal.SIGKILL)
    supervisor.wait(timeout=120)
    while not all(gone(pid) for pid in ranks):
        time.sleep(0.01)
    with Trace(run) as trace:
        return [left(trace, rank, path.stat().st_size) for rank, path in enumerate(returned)]


def left(trace: Trace, rank: int, completed: int) -> Left:
    """What is readable of one rank."""
    steps = trace.sql("SELECT step FROM steps WHERE rank = $rank AND completed AND stepped", {"rank": rank})["step"]
    counts = trace.sql(
        "SELECT step, count(*) AS rows FROM tensor_stats WHERE rank = $rank GROUP BY step ORDER BY step", {"rank": rank}
    )
    of = dict(zip(counts["step"].to_list(), counts["rows"].to_list(), strict=True))
    full = max((of.get(step, 0) for step in range(1, completed)), default=1)
    known = steps.to_list()
    return Left(
        completed=completed,
        lost=len(set(range(completed)) - set(known)),
        unreadable=sum(of.get(step, 0) < full for step in range(1, completed) if step in set(known)),
        doubled=len(known) - len(set(known)),
    )


def kill_quiet(folder: Path, chance: random.Random, *, everything: bool) -> list[Left]:
    """The same of one process whose steps go unwatched. Raises RuntimeError if the training ends by itself."""
    run, returned = folder / "run", folder / "returned"
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), str(SCRIPTS / "endless.py")]
    supervisor = subprocess.Popen([*command, str(returned)], stderr=subprocess.DEVNULL)
    while not returned.exists() or returned.stat().st_size < 400:  # the grace is over about then
        if supervisor.poll() is not None:
            raise RuntimeError(f"the training ended with {supervisor.returncode} before it was killed")
        time.sleep(0.01)
    script = int(Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()[0])
    time.sleep(chance.uniform(0, 4))
    if everything:
        supervisor.kill()
    os.kill(script, signal.SIGKILL)
    supervisor.wait(timeout=120)
    while not gone(script):
        time.sleep(0.01)
    completed = returned.stat().st_size
    with Trace(run) as trace:
        rows = trace.sql("SELECT step, 1 AS steps, false AS quiet FROM steps WHERE completed AND stepped").rows()
        rows += trace.sql("SELECT step, steps, true FROM unwatched_steps").rows()
        counted = diagnose(trace).run.steps_recorded
    known = [step for last, count, _ in rows for step in range(last - count + 1, last + 1)]
    by_rows = set(known)
    missing = set(range(completed)) - by_rows
    by_breadcrumb = set(range(max(by_rows, default=-1) + 1, counted))
    return [
        Left(
            completed=completed,
            lost=len(missing - by_breadcrumb),
            unreadable=len(missing & by_breadcrumb),
            doubled=len(known) - len(by_rows),
            quiet=sum(count for _, count, quiet in rows if quiet) + len(by_breadcrumb),
        )
    ]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="one process, steps that go unwatched")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    found: list[Left] = []
    for number in range(options.kills):
        everything = bool(number % 2)
        with tempfile.TemporaryDirectory() as folder:
            ranks = (kill_quiet if options.quiet else kill_one)(Path(folder), chance, everything=everything)
        found += ranks
        print(
            f"{number:3d}  {'everything' if everything else 'one':10s}  "
            + "  ".join(
                f"{r.completed:5d} completed ({r.quiet} unwatched), {r.lost} lost, {r.unreadable} unreadable"
                for r in ranks
            ),
            flush=True,
        )
    completed, lost, unreadable, doubled, quiet = (sum(column) for column in zip(*found, strict=True))
    print(
        f"{options.kills} kills, {completed} completed steps ({quiet} unwatched): {lost} lost, {unreadable} unreadable,"
        f" {doubled} doubled"
    )


if __name__ == "__main__":
    main()
