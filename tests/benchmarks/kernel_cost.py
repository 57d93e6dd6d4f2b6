"""What the moments of tensors cost: by the C library, by torch's operators, and beside one torch.dot over as many elements.

    python tests/benchmarks/kernel_cost.py [--rounds 41] [--only NAME]

One thread. The three are called in turn, so that noise of the machine hits them alike; the figures are medians over rounds in
microseconds, and the median of each round's ratio. ``--only NAME --by library|operators|dot --rounds N`` calls one of them and
nothing else: under ``valgrind --tool=callgrind`` the difference of two numbers of rounds is what a call takes in instructions.
"""

import argparse
import math
import statistics
from collections.abc import Callable
from time import perf_counter_ns

import torch
from firstfault.recorder.tensors import native
from firstfault.recorder.tensors.measure import measure, measure_all
from models import gpt_step
from torch import Tensor

MILLION = 1 << 20


def cases() -> dict[str, tuple[list[Tensor], Tensor]]:
    """Name → tensors that are measured together, and the vector whose dot product is what they are compared with."""
    torch.manual_seed(0)
    plain = torch.randn(MILLION)
    with_nan = plain.clone()
    with_nan[MILLION // 3] = math.nan
    gradients = [torch.randn_like(p) for p in gpt_step().model.parameters()]
    return {
        "gradients of the GPT": (gradients, torch.cat([g.flatten() for g in gradients])),
        "1 M float32": ([plain], plain),
        "1 M with one NaN": ([with_nan], plain),
        "1 M all NaN": ([torch.full_like(plain, math.nan)], plain),
        "1 M bfloat16 after ReLU": ([plain.relu().bfloat16()], plain),
        "1 M float16": ([plain.half()], plain),
        "64 elements": ([plain[:64].clone()], plain[:64].clone()),
    }


def calls_of(tensors: list[Tensor], vector: Tensor) -> dict[str, Callable[[], object]]:
    """Way → how the tensors are measured in it."""

    def look() -> object:
        return measure(tensors[0], count_zeros=True) if len(tensors) == 1 else measure_all(tensors)

    def operators() -> object:
        library, native.library = native.library, None
        try:
            return look()
        finally:
            native.library = library

    flat = [t.flatten() for t in tensors] if len(tensors) > 1 else [vector]
    return {"library": look, "operators": operators, "dot": lambda: [torch.dot(x, x).item() for x in flat]}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--only", help="one case")
    parser.add_argument("--by", help="one way")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if native.library is None:
        raise SystemExit(f"there is no library to compare: {native.why_not()}")
    print(f"{'':26s} {'dot us':>9s} {'library':>9s} {'operators':>9s} {'library/dot':>12s} {'operators/dot':>14s}")
    for name, (tensors, vector) in cases().items():
        if options.only not in {None, name}:
            continue
        calls = calls_of(tensors, vector)
        if options.by:
            for _ in range(options.rounds):
                calls[options.by]()
            continue
        taken: dict[str, list[float]] = {way: [] for way in calls}
        repeats = 100 if vector.numel() < 1000 else 1
        for _ in range(options.rounds):
            for way, call in calls.items():
                began = perf_counter_ns()
                for _ in range(repeats):
                    call()
                taken[way].append((perf_counter_ns() - began) / 1e3 / repeats)
        middle = {way: statistics.median(times) for way, times in taken.items()}
        ratio = {
            way: statistics.median(t / d for t, d in zip(times, taken["dot"], strict=True))
            for way, times in taken.items()
        }
        print(
            f"{name:26s} {middle['dot']:9.1f} {middle['library']:9.1f} {middle['operators']:9.1f}"
            f" {ratio['library']:12.2f} {ratio['operators']:14.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
