"""What recording costs beside what people use today, on the same training loops: one table of paired ratios.

    python tests/benchmarks/cost_table.py [--pairs 20] [--models gpt,gpt60m,cnn] [--tools every,default,...] [--threads 2]

Each pair is a block of plain and a block of instrumented steps of the same model in one process, in random order; the figure is
the median over pairs of instrumented ÷ plain, with the 10 % and 90 % quantiles, and the mean over all. Machine noise hits both
sides of a pair alike. A pair during which other processes took more than a twentieth of the machine is taken again, because
training and tool then wait for a processor more often than they work. The first steps of a block do not count: putting hooks
into torch's classes and taking them out makes CPython forget what it has learnt of them (its inline caches hang on the version
of a type), which a training meets once and a benchmark in every block. What a tool cannot take out again is left attached on a
second copy of the model. `firstfault default` is the default budget after its grace is used up; there the mean counts too,
because its costly steps are rare on purpose. `own` is what the recorder itself accounts for over 64 further steps, against a
plain step: it says nothing of calling its hooks and of what they leave in caches, but noise hardly touches it. Tools that are
not installed are named and left out; `pip install transformers tensorboard mindstudio-probe` brings all three.
"""

import argparse
import importlib.util
import json
import os
import random
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from time import perf_counter

import psutil
import torch
from firstfault.recorder import Recorder
from models import Step, cnn_step, gpt_step
from torch import Tensor

MODELS: dict[str, Callable[[], Step]] = {
    "gpt": gpt_step,
    "gpt60m": lambda: gpt_step(vocabulary=4096, width=640, layers=11, batch=2),
    "cnn": cnn_step,
}


@contextmanager
def recorded(make: Callable[[], Step], **options: object) -> Iterator[tuple[Callable[[], float], Callable[[], float]]]:
    """Plain and recorded calls of one step."""
    step = make()
    with tempfile.TemporaryDirectory() as folder, Recorder(Path(folder) / "run", **options) as recorder:
        attachment = recorder._attachment
        attachment.detach()

        class Attached:
            """Not part of the step: putting everything into torch and taking it out again."""

            def __enter__(self) -> None:
                attachment.attach()
                attachment.session.step_row.restart_clock()  # the plain step between is none of ours

            def __exit__(self, *_: object) -> None:
                attachment.detach()

        def instrumented() -> float:
            return step()

        instrumented.around = Attached()
        instrumented.own_ns = lambda: attachment.session.budget.used_ns
        yield step, instrumented
        attachment.attach()


@contextmanager
def hand_written(make: Callable[[], Step]) -> Iterator[tuple[Callable[[], float], Callable[[], float]]]:
    """What many write themselves: mean, standard deviation and NaN count of outputs, norms of weights and gradients."""
    plain, step = make(), make()
    seen: list[float] = []

    def look(_module: torch.nn.Module, _args: object, output: object) -> None:
        if isinstance(output, Tensor) and output.is_floating_point():
            x = output.detach()
            seen.extend((x.mean().item(), x.std().item(), float(x.isnan().sum())))

    for module in step.model.modules():
        module.register_forward_hook(look)

    def instrumented() -> float:
        loss = step()
        for parameter in step.model.parameters():
            seen.append(parameter.detach().norm().item())
            if parameter.grad is not None:
                seen.append(parameter.grad.norm().item())
        seen.clear()
        return loss

    yield plain, instrumented


@contextmanager
def least(make: Callable[[], Step]) -> Iterator[tuple[Callable[[], float], Callable[[], float]]]:
    """The least that looking at everything can cost with operators of torch: one reduction of each output, of each gradient of
    one, of each weight and its gradient, of which nothing is read, kept or written."""
    plain, step = make(), make()

    def dot(x: Tensor) -> None:
        flat = x.detach().reshape(-1)
        torch.dot(flat, flat)

    def look(_module: torch.nn.Module, _args: object, output: object) -> None:
        if isinstance(output, Tensor):
            dot(output)
            output.register_hook(dot)

    for module in step.model.modules():
        if not list(module.children()):
            module.register_forward_hook(look)

    def instrumented() -> float:
        loss = step()
        for parameter in step.model.parameters():
            dot(parameter)
            if parameter.grad is not None:
                dot(parameter.grad)
        return loss

    yield plain, instrumented


@contextmanager
def anomaly_mode(make: Callable[[], Step]) -> Iterator[tuple[Callable[[], float], Callable[[], float]]]:
    """torch.autograd.detect_anomaly."""
    step = make()

    def instrumented() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autograd.detect_anomaly():
                return step()

    yield step, instrumented


@contextmanager
def underflow_overflow(make: Callable[[], Step]) -> Iterator[tuple[Callable[[], float], Callable[[], float]]]:
    """transformers' DebugUnderflowOverflow: forward only."""
    from transformers.debug_utils import DebugUnderflowOverflow

    plain, step = make(), make()
    DebugUnderflowOverflow(step.model)
    yield plain, step


@contextmanager
def histograms(make: Callable[[], Step]) -> Iterator[tuple[Callable[[], float], Callable[[], float]]]:
    """TensorBoard histograms of weights and gradients at every step."""
    from torch.utils.tensorboard import SummaryWriter

    step = make()
    state = {"step": 0}
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:

        def instrumented() -> float:
            loss = step()
            state["step"] += 1
            for name, parameter in step.model.named_parameters():
                writer.add_histogram(name, parameter, state["step"])
                if parameter.grad is not None:
                    writer.add_histogram(f"{name}.grad", parameter.grad, state["step"])
            return loss

        yield step, instrumented


@contextmanager
def monitor(make: Callable[[], Step]) -> Iterator[tuple[Callable[[], float], Callable[[], float]]]:
    """msprobe's TrainerMon: norm, mean and extremes of outputs, weights and gradients of both, as CSV, at every step."""
    wanted = dict.fromkeys(("xy_distribution", "all_xy", "wg_distribution", "param_distribution"), True)
    config = {"targets": {}, "ops": ["norm", "mean", "min", "max"], "format": "csv", **wanted}
    plain, step = make(), make()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        os.environ["MONITOR_OUTPUT_DIR"] = folder  # read when it is imported
        from msprobe.pytorch import TrainerMon

        path = Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        TrainerMon(str(path), params_have_main_grad=False).set_monitor(step.model, step.optimizer)
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        yield plain, step


TOOLS = {
    "default": ("firstfault default", lambda make: recorded(make, grace="1ms"), ""),
    "every": ("firstfault everything", lambda make: recorded(make, budget="off"), ""),
    "least": ("one dot product per tensor", least, ""),
    "hooks": ("hand-written hooks and norms", hand_written, ""),
    "anomaly": ("autograd anomaly mode", anomaly_mode, ""),
    "transformers": ("DebugUnderflowOverflow", underflow_overflow, "transformers"),
    "tensorboard": ("TensorBoard histograms", histograms, "tensorboard"),
    "msprobe": ("msprobe TrainerMon", monitor, "msprobe"),
}
"""Name on the command line → name in the table, how to instrument, package that it needs."""


_DISTURBED = 0.05
_PATIENCE = 5
"""Disturbed pairs for each wanted one, after which they count like others."""


def taken_by_others() -> float:
    """Processor seconds of all other processes since the machine started."""
    times = psutil.cpu_times()
    own = psutil.Process().cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - own.user - own.system


def block(call: Callable[[], float], steps: int, settle: int) -> float:
    """Mean seconds of a step, of those after the first ``settle``."""
    with getattr(call, "around", nullcontext()):
        for _ in range(settle):
            call()
        began = perf_counter()
        for _ in range(steps):
            call()
        return (perf_counter() - began) / steps


def paired(
    plain: Callable[[], float], instrumented: Callable[[], float], options: argparse.Namespace
) -> tuple[list[float], list[float], int]:
    """Seconds of a plain and of an instrumented step, pair by pair, and how many pairs were disturbed."""
    order = random.Random(options.seed)
    block(instrumented, options.warm, 0)
    seconds: tuple[list[float], list[float]] = ([], [])
    disturbed = 0
    while len(seconds[0]) < options.pairs:
        others, wall = taken_by_others(), perf_counter()
        pair = [0.0, 0.0]
        for which in order.sample([0, 1], 2):
            pair[which] = block((plain, instrumented)[which], options.steps, options.settle)
        others, wall = taken_by_others() - others, perf_counter() - wall
        if others > _DISTURBED * wall * (psutil.cpu_count() or 1) and disturbed < _PATIENCE * options.pairs:
            disturbed += 1
            continue
        for which in (0, 1):
            seconds[which].append(pair[which])
    return (*seconds, disturbed)


def own_share(instrumented: Callable[[], float], plain_s: float, steps: int = 64) -> str:
    """1 + what the recorder says it took in further steps ÷ what a plain step takes, as text; empty for other tools."""
    own_ns = getattr(instrumented, "own_ns", None)
    if own_ns is None:
        return ""
    with instrumented.around:
        before = own_ns()
        for _ in range(steps):
            instrumented()
        return f"{1 + (own_ns() - before) / 1e9 / steps / plain_s:.3f}"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=8, help="steps of a block")
    parser.add_argument("--settle", type=int, default=2, help="steps before those of a block that are not counted")
    parser.add_argument(
        "--warm", type=int, default=40, help="instrumented steps before all; the budget settles in them"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order within pairs")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", default="gpt,gpt60m,cnn")
    parser.add_argument("--tools", default=",".join(TOOLS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(
        f"{'model':8s} {'tool':30s} {'plain ms':>9s} {'ratio':>6s} {'10 %':>6s} {'90 %':>6s} {'mean':>6s} {'own':>6s} disturbed"
    )
    for model in options.models.split(","):
        for key in options.tools.split(","):
            name, instrument, package = TOOLS[key]
            if package and importlib.util.find_spec(package) is None:
                print(f"{model:8s} {name:30s} {'not installed':>9s}")
                continue
            with instrument(MODELS[model]) as (plain, instrumented):
                before, after, disturbed = paired(plain, instrumented, options)
                own = own_share(instrumented, statistics.median(before))
            ratios = [b / a for a, b in zip(before, after, strict=True)]
            low, *_, high = statistics.quantiles(ratios, n=10)
            print(
                f"{model:8s} {name:30s} {1e3 * statistics.median(before):9.1f} {statistics.median(ratios):6.3f}"
                f" {low:6.3f} {high:6.3f} {sum(after) / sum(before):6.3f} {own:>6s} {disturbed:9d}",
                flush=True,
            )


if __name__ == "__main__":
    main()
