"""What recording costs: plain and recorded steps of one training, alternating in one process.

    python tests/benchmarks/step_cost.py [--pairs 60]

Each pair is one plain and one recorded step of the same model, in random order; the figure is the median over pairs of
recorded ÷ plain. Every statistic is taken at every step. Machine noise hits both sides of a pair alike; a pair during which
other processes took more than a twentieth of the machine does not count, because training and recorder then wait for a
processor more often than they work.
"""

import argparse
import random
import statistics
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import psutil
import torch
from firstfault.recorder import Recorder
from models import gpt_step

_DISTURBED = 0.05
_PATIENCE = 20
"""Disturbed pairs for each wanted one, after which the benchmark gives up."""


def _taken_by_others() -> float:
    """Processor seconds of all other processes since the machine started."""
    times = psutil.cpu_times()
    own = psutil.Process().cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - own.user - own.system


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu", action="store_true", help="count CPU time: steadier on a busy machine, with one thread"
    )
    parser.add_argument(
        "--exclude", action="append", default=[], help="as for `firstfault run`, such as kind:optimizer_state"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = process_time if options.cpu else perf_counter
    step = gpt_step()
    ratios, plain_ms, recorded_ms, own_ms = [], [], [], []
    order = random.Random(0)
    with (
        tempfile.TemporaryDirectory() as folder,
        Recorder(Path(folder) / "run", budget="off", exclude=options.exclude) as recorder,
    ):
        attachment = recorder._attachment
        pair = disturbed = 0
        while pair < options.pairs + 5 and disturbed < _PATIENCE * options.pairs:
            seconds = {}
            others, wall = _taken_by_others(), perf_counter()
            for recorded in order.sample([True, False], 2):
                if recorded:
                    attachment.attach()
                began = clock()
                step()
                seconds[recorded] = clock() - began
                if recorded:
                    own_ms.append(attachment.session.last_recorder_ns / 1e6)
                    attachment.detach()
            others, wall = _taken_by_others() - others, perf_counter() - wall
            if others > _DISTURBED * wall * psutil.cpu_count():
                disturbed += 1
                continue
            pair += 1
            if pair > 5:
                ratios.append(seconds[True] / seconds[False])
                plain_ms.append(seconds[False] * 1e3)
                recorded_ms.append(seconds[True] * 1e3)
        attachment.attach()
    median = statistics.median
    low, high = statistics.quantiles(ratios, n=10)[0], statistics.quantiles(ratios, n=10)[-1]
    print(
        f"pairs {len(ratios)}, disturbed {disturbed}  plain {median(plain_ms):.1f} ms  recorded {median(recorded_ms):.1f} ms"
    )
    print(f"ratio {median(ratios):.3f}  (10 % to 90 %: {low:.3f} to {high:.3f})")
    print(f"time inside the recorder's hooks {median(own_ms):.2f} ms a step")


if __name__ == "__main__":
    main()
