"""What the profiler windows of ``--profile auto`` add to a recorded run.

    python tests/benchmarks/profile_cost.py [--steps 400] [--threads 2]

The benchmark GPT is trained by `firstfault run --profile auto`, and the recording tells what the windows took: for each window,
the time of its step and of the five after it (its trace is saved, and then turned into rows beside the training) beyond as many
usual steps, which is the median of the twenty before. The sum over all windows, divided by the length of the run, is what
windows add; on a machine with other work the median of a window times their number is steadier. Beside it: what the watch takes
in steps outside windows, timed call by call in one process.
"""

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns

import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from models import gpt_step

AFTER = 5
BEFORE = 20


def windows(folder: Path, steps: int, threads: int) -> None:
    """Record a run and print what its windows took."""
    run = folder / "run"
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), "--profile", "auto"]
    subprocess.run([*command, __file__, "--train", str(steps), "--threads", str(threads)], check=True)
    with Trace(run) as trace:
        ends = [row["time_ns"] for row in trace.rows("SELECT time_ns FROM steps ORDER BY step")]
        firsts = [
            row["first"]
            for row in trace.rows(
                "SELECT (detail->>'first')::INT AS first FROM events WHERE event = 'profiled' ORDER BY 1"
            )
        ]
    took = [b - a for a, b in itertools.pairwise(ends)]  # took[k] is that of step k + 1
    extra: list[float] = []
    for first in firsts:
        usual = statistics.median(took[max(first - 1 - BEFORE, 0) : first - 1])
        around = took[first - 1 : first + AFTER]
        extra.append(sum(around) - usual * len(around))
    whole = ends[-1] - ends[0]
    print(f"{len(ends)} steps of {statistics.median(took) / 1e6:.0f} ms in {whole / 1e9:.0f} s, windows at {firsts}")
    usual_extra = statistics.median(extra) * len(extra)
    print(
        f"windows add {[round(e / 1e6) for e in extra]} ms: together {sum(extra) / (whole - sum(extra)):+.4f} of the run,"
    )
    print(f"by the median of a window {usual_extra / (whole - usual_extra):+.4f}")


def outside(steps: int) -> None:
    """Time the watch where no window is open."""
    spent = [0]

    def timed(function):
        def call(*args: object) -> object:
            began = perf_counter_ns()
            try:
                return function(*args)
            finally:
                spent[0] += perf_counter_ns() - began

        return call

    from firstfault.recorder.watches.profiler_windows import ProfilerWatch

    for name in ("_step_ends", "_enter", "_leave", "_optimizer_enter", "_optimizer_leave"):
        setattr(ProfilerWatch, name, timed(getattr(ProfilerWatch, name)))
    own, whole = [], []
    with tempfile.TemporaryDirectory() as folder, Recorder(Path(folder) / "run", profile="1000000:1000001"):
        step = gpt_step()
        for _ in range(steps):
            spent[0], began = 0, perf_counter_ns()
            step()
            own.append(spent[0])
            whole.append(perf_counter_ns() - began)
    share = statistics.median(a / b for a, b in zip(own, whole, strict=True))
    print(f"outside windows: {statistics.median(own) / 1e3:.0f} us a step, timing included: {share:.5f} of it")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--train", type=int, help="only train so many steps; what the recorded process does")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.train:
        step = gpt_step()
        for _ in range(options.train):
            step()
        return
    outside(40)
    with tempfile.TemporaryDirectory() as folder:
        windows(Path(folder), options.steps, options.threads)


if __name__ == "__main__":
    main()
