"""Host cost of the recorder outside tensor arithmetic: microseconds a step for 200 tiny tensors.

    python tests/benchmarks/host_cost.py [--steps 300] [--tensors 200] [--profile]

The model is a bag of parameters of 4 elements, so that the arithmetic of the statistics is as good as nothing and what is
left is the price of Python and of calling torch. Printed for a step that measures everything and for one in which nothing
costly is due: the whole (the median over steps), and what is left of it without the time inside torch's operators. That time
is taken in a second recording under a TorchFunctionMode, around each operator that is called from a hook of the recorder;
reading an attribute of a tensor is no operator. Last, what of the whole is spent when a step ends, between the last hook that
measures and the rows in the journal, and how many rows of tensor statistics it wrote.
"""

import argparse
import cProfile
import pstats
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import torch
from firstfault.recorder import Recorder
from firstfault.recorder.session.session import Session
from torch import nn
from torch.overrides import TorchFunctionMode


class Bag(nn.Module):
    """As many parameters as wanted, all used."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(4) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.cat(list(self.weights)).sum()


class Operators(TorchFunctionMode):
    """Adds up the time inside operators that the recorder calls."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.ns = 0

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.session.guard._entered or getattr(func, "__name__", "") in {"__get__", "__set__"}:
            return func(*args, **(kwargs or {}))
        began = perf_counter_ns()
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.ns += perf_counter_ns() - began


def measure(
    steps: int, tensors: int, every: int, profile: cProfile.Profile | None = None, *, operators: bool = False
) -> tuple[float, float, int]:
    """Median time inside the recorder's hooks, in microseconds a step; with ``operators``, that inside torch's operators.
    Beside it the median of the steps' ends alone, and the rows of statistics that the last of them wrote."""
    torch.manual_seed(0)
    model = Bag(tensors)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    own = []
    with tempfile.TemporaryDirectory() as folder, Recorder(Path(folder) / "run", every=every, budget="off") as recorder:
        session = recorder._attachment.session
        ends, finish, rows = [], session.finish, 0

        def timed(**options: Any) -> None:
            nonlocal rows
            rows, began = session.rows.stat_index(), perf_counter_ns()
            finish(**options)
            ends.append((perf_counter_ns() - began) / 1e3)

        session.finish = timed
        x = torch.randn(4)
        inside = Operators(session)
        stack = ExitStack()
        if operators:
            stack.enter_context(inside)
        for step in range(steps):
            if profile is not None and step == 20:
                profile.enable()
            before = inside.ns
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            if step >= 20 and (every == 1 or step % every):
                own.append((inside.ns - before if operators else session.step_row.last_recorder_ns) / 1e3)
        stack.close()
        if profile is not None:
            profile.disable()
    return statistics.median(own), statistics.median(ends[20:]), rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tensors", type=int, default=200)
    parser.add_argument("--profile", action="store_true", help="print where the time goes instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for every, name in ((1, "everything measured"), (100_000, "nothing costly due")):
        if options.profile:
            profile = cProfile.Profile()
            measure(options.steps, options.tensors, every, profile)
            print(f"== {name}")
            pstats.Stats(profile).sort_stats("tottime").print_stats(22)
        else:
            whole, end, rows = measure(options.steps, options.tensors, every)
            inside, *_ = measure(options.steps, options.tensors, every, operators=True)
            print(
                f"{name:22s} {whole:8.0f} us a step, {whole - inside:8.0f} outside of operators, {options.tensors} tensors;"
                f" {end:6.0f} at its end, {rows} rows"
            )


if __name__ == "__main__":
    main()
