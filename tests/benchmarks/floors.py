"""What recording everything costs at least, in instructions: counted by valgrind, so that a busy machine does not matter.

    python tests/benchmarks/floors.py [--models cnn,gpt] [--steps 3,7] [--variants plain,hooks,...]

Each variant trains the same steps in a process under `valgrind --tool=callgrind`, once for each of two numbers of steps. The
difference divided by the steps between is what a step takes, without imports and warming up. The variants:

plain      the training alone.
hooks      a pre-hook and a hook for every module's forward, a hook for the gradient of every output and parameter: all empty.
moments    the same hooks, each taking moments of its tensor with the C pass of the recorder: what any such recorder must do.
torch-dot  the same hooks, each taking torch.dot of its tensor with itself: it tells much less.
recorded   firstfault, everything at every step.

Instructions are not time: the C pass takes eight numbers with one, Python's interpreter misses caches. Printed is both shares.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from firstfault.recorder import Recorder
from firstfault.recorder.tensors import native
from models import Step, cnn_step, gpt_step
from torch import Tensor

MODELS: dict[str, Callable[[], Step]] = {"cnn": cnn_step, "gpt": gpt_step}
VARIANTS = ("plain", "hooks", "moments", "torch-dot", "recorded")


def _nothing(_: Tensor) -> None:
    pass


def _dot(x: Tensor) -> None:
    flat = x.detach().reshape(-1)
    torch.dot(flat, flat)


def hook_everything(step: Step, look: Callable[[Tensor], Any]) -> None:
    """Have ``look`` called with every module's output and its gradient, and with every parameter's gradient."""

    def before(_module: torch.nn.Module, _args: tuple[Any, ...]) -> None:
        pass

    def after(_module: torch.nn.Module, _args: tuple[Any, ...], output: Tensor) -> None:
        look(output)
        if output.requires_grad:
            output.register_hook(gradient)

    def gradient(grad: Tensor) -> None:
        look(grad)

    def accumulated(parameter: Tensor) -> None:
        if parameter.grad is not None:
            look(parameter.grad)

    for module in step.model.modules():
        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
    for parameter in step.model.parameters():
        parameter.register_post_accumulate_grad_hook(accumulated)


def train(model: str, variant: str, steps: int) -> None:
    """The steps of one variant, in this process."""
    torch.set_num_threads(1)
    step = MODELS[model]()
    if variant == "recorded":
        with tempfile.TemporaryDirectory() as folder, Recorder(Path(folder) / "run", model=step.model, budget="off"):
            for _ in range(steps):
                step()
        return
    if variant != "plain":
        moments = native.library
        assert variant != "moments" or moments is not None, "the C library was not built"
        hook_everything(step, {"hooks": _nothing, "torch-dot": _dot}.get(variant) or partial(_moments, moments))
    for _ in range(steps):
        step()


def _moments(library: Any, x: Tensor) -> None:
    library.moments(x)


def instructions(model: str, variant: str, steps: int) -> int:
    """Of a whole process, all threads."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, __file__]
    done = subprocess.run(
        [*command, "--train", model, variant, str(steps)], capture_output=True, text=True, check=False
    )
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or counted is None:
        sys.exit(f"{variant} of {model} has failed under valgrind:\n{done.stderr[-2000:]}")
    return int(counted[1])


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--steps", default="3,7", help="two numbers of steps")
    parser.add_argument("--train", nargs=3, metavar=("MODEL", "VARIANT", "STEPS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train(given.train[0], given.train[1], int(given.train[2]))
        return
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing: on Debian, apt-get install valgrind")
    few, many = map(int, given.steps.split(","))
    print("| model | variant | million instructions a step | ÷ plain |\n|---|---|---|---|", flush=True)
    for model in given.models.split(","):
        plain = 0.0
        for variant in given.variants.split(","):
            each = (instructions(model, variant, many) - instructions(model, variant, few)) / (many - few) / 1e6
            plain = plain or each
            print(f"| {model} | {variant} | {each:,.1f} | {each / plain:.3f} |", flush=True)


if __name__ == "__main__":
    main()
