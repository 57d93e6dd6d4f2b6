"""What late steps pay on a machine that is not quiet: a plain and a recorded process make a few steps in turn.

    python tests/benchmarks/in_turn.py [--models small,medium,deep,cnn,gpt] [--pairs 5] [--early 10] [--seconds 24]
        [--options "--budget off"] [--heap steady]

Both live at once, each on one thread of the same core, and only one computes. What slows the machine for longer than a block so
meets both. A block is as many steps as take a second, at least eight. Before the blocks that count, each trains for ``--early``
seconds, by when intervals have settled. ``thread`` is the time of the processor that the training's thread takes, ``process``
that of all threads. Of a pair of processes the mean over its blocks counts: recorded ÷ plain. One process is up to a tenth slower
than another of the same kind, from its first step to its last: so printed are the median, the least and the most of several
pairs. ``own`` is 1 + what the recorder accounts for itself ÷ what a step takes plain. The clock that the recorder imports stands
still in a pause, which would else look like training.

``faults`` are pages that the system maps for the training's thread, a step, plain and recorded. glibc gives the top of its heap
back when enough of it is free, and the next step faults it in again: 0 to 24,000 pages a step of the GPT, by the places of small
blocks, which takes up to a tenth of it. ``--heap steady`` has both processes keep their heaps.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firstfault.analyzer import Trace
from whole_runs import LARGE, MODELS, ONE_OF_MODELS, PERCEPTRON, PERCEPTRON_STEP

SCRIPT = """
import json, os, resource, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
clock, paused = time.perf_counter_ns, 0
time.perf_counter_ns = lambda: clock() - paused
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
BUILD
def tell(found):
    print(json.dumps(found), flush=True)

def measured():
    faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    return time.perf_counter(), time.thread_time(), time.process_time(), faults

step = 0
while True:
    at = clock()
    wanted = int(sys.stdin.readline())
    paused += clock() - at
    if not wanted:
        break
    began = measured()
    for step in range(step, step + wanted):
        LOOP
    ended = measured()
    step += 1
    tell([b - a for a, b in zip(began, ended)])
tell(float(loss.detach() if torch.is_tensor(loss) else loss))
"""
_LEAST = 8
"""Steps of a block, at least: the first of them finds its caches full of the other process."""

CLOCKS = ("wall", "thread", "process")

STEADY_HEAP = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**40)}
"""Settings of glibc's allocator with which it keeps what it has: the first is the largest that it takes."""


def script_of(model: str) -> str:
    """The training script of a model, which makes steps when it is told to."""
    if model in MODELS:
        lines = PERCEPTRON_STEP.strip("\n").replace("\n", "\n    ")
        return SCRIPT.replace("BUILD", PERCEPTRON).replace("    LOOP", lines)
    return SCRIPT.replace("BUILD", ONE_OF_MODELS).replace("LOOP", "loss = made()")


class Training:
    """A process that makes steps when it is told to."""

    def __init__(self, script: Path, model: str, tool: Sequence[str], environment: Mapping[str, str]) -> None:
        shape = MODELS.get(model) or (model, str(Path(__file__).parent))
        arguments = [*map(str, shape), "0", "-"]  # neither a number of steps nor a file
        self.process = subprocess.Popen(
            [sys.executable, *tool, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self.steps = 0

    def make(self, steps: int) -> Any:
        """Seconds that so many steps take, by each clock; of 0 steps the last loss, and then it ends."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(steps, file=self.process.stdin, flush=True)
        self.steps += steps
        return json.loads(self.process.stdout.readline())

    def end(self) -> float:
        """The last loss."""
        loss: float = self.make(0)
        self.process.wait()
        return loss


def accounted(run: Path, first: int, last: int) -> float:
    """Seconds a step that the recorder accounts for itself in the steps from ``first`` to ``last``."""
    with Trace(run) as trace:
        told: list[tuple[int, float]] = trace.sql(
            "SELECT step + 1, sum(sum(ns) FILTER (part NOT IN ('start', 'end'))) OVER (ORDER BY step) / 1e9 "
            "FROM recorder_stats GROUP BY step ORDER BY step"
        ).rows()

    def until(wanted: int) -> float:
        before = max((t for t in told if t[0] <= wanted), default=(0, 0.0))
        after = min((t for t in told if t[0] >= wanted), default=before)
        part = (wanted - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 0.0
        return before[1] + part * (after[1] - before[1])

    return (until(last) - until(first)) / (last - first)


def measure(
    model: str, early: float, seconds: float, options: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, list[tuple[Any, Any]], float]:
    """Steps of a block, what its steps took plain and recorded, and what the recorder accounts for a step."""
    with tempfile.TemporaryDirectory() as place:
        script, run = Path(place) / "train.py", Path(place) / "run"
        script.write_text(script_of(model))
        plain = Training(script, model, [], environment)
        tool = ["-m", "firstfault", "run", "--quiet", *options, "--out", str(run)]
        recorded = Training(script, model, tool, environment)
        plain.make(3)
        took = plain.make(3)[0] / 3
        recorded.make(6)
        size = max(_LEAST, round(1 / took))
        for _ in range(max(1, round(early / took / size))):
            took = plain.make(size)[0] / size
            recorded.make(size)
        first = recorded.steps
        blocks = []
        for number in range(max(2, round(seconds / (2 * took * size)))):
            order = (plain, recorded) if number % 2 else (recorded, plain)
            found = {id(each): each.make(size) for each in order}
            blocks.append((found[id(plain)], found[id(recorded)]))
        assert plain.end() == recorded.end(), "recording has changed the training"
        return size, blocks, accounted(run, first, recorded.steps)


def ratio(blocks: Sequence[tuple[Any, Any]], clock: int) -> float:
    """Recorded ÷ plain, each block weighted alike, so that one in a slow second counts as much as any."""
    return statistics.fmean(recorded[clock] / plain[clock] for plain, recorded in blocks)


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join([*MODELS, *LARGE]))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--early", type=float, default=10.0, help="seconds of training before the blocks that count")
    parser.add_argument("--seconds", type=float, default=24.0, help="seconds of the blocks, both processes together")
    parser.add_argument("--options", default="", help="options of `firstfault run`")
    parser.add_argument(
        "--heap", choices=["as it is", "steady"], default="as it is", help="whether freed memory is kept"
    )
    given = parser.parse_args()
    environment = STEADY_HEAP if given.heap == "steady" else {}
    print("| model | step | clock | recorded ÷ plain | least – most | own |\n|---|---|---|---|---|---|")
    for model in given.models.split(","):
        pairs = [
            measure(model, given.early, given.seconds, given.options.split(), environment) for _ in range(given.pairs)
        ]
        for at, clock in enumerate(CLOCKS):
            steps = [statistics.median(plain[at] for plain, _ in blocks) / size for size, blocks, _ in pairs]
            ratios = [ratio(blocks, at) for _, blocks, _ in pairs]
            own = statistics.median(1 + taken / step for step, (*_, taken) in zip(steps, pairs, strict=True))
            print(
                f"| {model} | {statistics.median(steps) * 1e3:.2f} ms | {clock} | {statistics.median(ratios):.3f} "
                f"| {min(ratios):.3f} – {max(ratios):.3f} | {own:.3f} |",
                flush=True,
            )
        faults = [
            statistics.fmean(pair[side][-1] / size for size, blocks, _ in pairs for pair in blocks) for side in (0, 1)
        ]
        print(f"| {model} | | faults | {faults[0]:.0f} plain, {faults[1]:.0f} recorded | | |", flush=True)


if __name__ == "__main__":
    main()
