"""What recording costs beside what people use today, on the same training loops: one table of paired ratios.

    python tests/benchmarks/cost_table.py [--pairs 40] [--models gpt,gpt60m,cnn] [--tools every,default,...] [--threads 2]

Each pair is one plain and one instrumented step of the same model in one process, in random order; the figure is the median
over pairs of instrumented ÷ plain, with the 10 % and 90 % quantiles. Machine noise hits both sides of a pair alike. What a
tool cannot take out again is left attached on a second copy of the model. `firstfault default` is the default budget after its
grace is used up, in the mean over the pairs, because its costly steps are rare on purpose. Tools that are not installed are
named and left out; `pip install transformers tensorboard mindstudio-probe` brings all three.
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
from time import perf_counter, perf_counter_ns

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
                attachment.session._last_flush = perf_counter_ns()  # the plain step between is none of ours

            def __exit__(self, *_: object) -> None:
                attachment.detach()

        def instrumented() -> float:
            return step()

        instrumented.around = Attached()
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
    "hooks": ("hand-written hooks and norms", hand_written, ""),
    "anomaly": ("autograd anomaly mode", anomaly_mode, ""),
    "transformers": ("DebugUnderflowOverflow", underflow_overflow, "transformers"),
    "tensorboard": ("TensorBoard histograms", histograms, "tensorboard"),
    "msprobe": ("msprobe TrainerMon", monitor, "msprobe"),
}
"""Name on the command line → name in the table, how to instrument, package that it needs."""


def paired(
    plain: Callable[[], float], instrumented: Callable[[], float], pairs: int, warm: int
) -> tuple[list[float], list[float]]:
    """Seconds of plain and of instrumented steps, pair by pair."""
    order = random.Random(0)
    seconds: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs + warm):
        for which in order.sample([0, 1], 2):
            call = (plain, instrumented)[which]
            with getattr(call, "around", nullcontext()):
                began = perf_counter()
                call()
                ended = perf_counter()
            if pair >= warm:
                seconds[which].append(ended - began)
    return seconds


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--warm", type=int, default=20, help="pairs that are not counted; the budget settles in them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", default="gpt,gpt60m,cnn")
    parser.add_argument("--tools", default=",".join(TOOLS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{'model':8s} {'tool':30s} {'plain ms':>9s} {'ratio':>6s} {'10 %':>6s} {'90 %':>6s} {'mean':>6s}")
    for model in options.models.split(","):
        for key in options.tools.split(","):
            name, instrument, package = TOOLS[key]
            if package and importlib.util.find_spec(package) is None:
                print(f"{model:8s} {name:30s} {'not installed':>9s}")
                continue
            with instrument(MODELS[model]) as (plain, instrumented):
                before, after = paired(plain, instrumented, options.pairs, options.warm)
            ratios = [b / a for a, b in zip(before, after, strict=True)]
            low, *_, high = statistics.quantiles(ratios, n=10)
            print(
                f"{model:8s} {name:30s} {1e3 * statistics.median(before):9.1f} {statistics.median(ratios):6.3f}"
                f" {low:6.3f} {high:6.3f} {sum(after) / sum(before):6.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
