"""What recording everything costs at least: the same training with hooks that do less and less, down to none.

    python tests/benchmarks/floors.py [--models deep,cnn,gpt] [--variants plain,hooks,...] [--rounds 5] [--steps 40]
    python tests/benchmarks/floors.py --models mlp --instructions

The variants:

plain      the training alone.
hooks      a pre-hook and a hook for every module's forward, a hook for the gradient of every output and parameter: all empty.
moments    the same hooks, each taking moments of its tensor with the C pass of the recorder: what any such recorder must do.
torch-dot  the same hooks, each taking torch.dot of its tensor with itself: it tells much less.
recorded   firstfault, everything at every step.
watched    firstfault, every step watched, none of the costly kinds measured. ``watched+gradients`` measures one of them, so that
           the difference is what it takes (activations, activation_gradients, gradients, parameters, updates, optimizer_state).

unwatched  firstfault under ``--budget 2%``, once steps go unwatched: of those steps alone.

Each round trains every variant in a process of its own, on one thread. Printed is the processor time of the thread that trains:
the median over the steps of a process without its first five, and of that the median over rounds. ``--instructions`` has valgrind
count instead, so that a busy machine does not matter: of the steps alone, without imports and the first five. A step takes
a hundred times as long, with convolutions far more. Instructions are not time: the C pass takes eight numbers with one.
"""

import argparse
import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import thread_time_ns
from typing import Any

import torch
from firstfault.recorder import Recorder, attach
from firstfault.recorder.tensors import native
from models import Step, cnn_step, gpt_step
from torch import Tensor, nn


def mlp_step(layers: int = 4, width: int = 64) -> Step:
    """Linear layers on a batch of 64: more Python than arithmetic."""
    torch.manual_seed(0)
    hidden = [part for _ in range(layers - 2) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(nn.Linear(16, width), nn.ReLU(), *hidden, nn.Linear(width, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(64, 16)
    y = x[:, :1].sin()

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return Step(model, optimizer, step)


MODELS: dict[str, Callable[[], Step]] = {
    "mlp": mlp_step,
    "deep": partial(mlp_step, 30, 48),
    "cnn": cnn_step,
    "gpt": gpt_step,
}
_WARM = 5
_NEVER = 1 << 40
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


def train(model: str, variant: str, steps: int, *, counted: bool) -> None:
    """The steps of one variant, in this process; prints the median of their processor time in ns. ``counted``: valgrind looks at
    the steps after the first ones."""
    torch.set_num_threads(1)
    step = MODELS[model]()
    measure = _counted if counted else _timed
    if variant.startswith(("recorded", "watched")):
        with tempfile.TemporaryDirectory() as folder, Recorder(Path(folder) / "run", model=step.model, budget="off"):
            if variant != "recorded":
                recording = attach.current()
                assert recording is not None
                intervals = recording.session.budget.intervals
                intervals.update((kind, 1 if variant == f"watched+{kind}" else _NEVER) for kind in intervals)
            print(measure(step, steps))
        return
    if variant == "unwatched":
        with (
            tempfile.TemporaryDirectory() as folder,
            Recorder(Path(folder) / "run", model=step.model, budget="2%", grace="1ms"),
        ):
            print(measure(step, steps, _goes_unwatched))
        return
    if variant != "plain":
        moments = native.library
        assert variant != "moments" or moments is not None, "the C library was not built"
        hook_everything(step, {"hooks": _nothing, "torch-dot": _dot}.get(variant) or partial(_moments, moments))
    print(measure(step, steps))


def _always() -> bool:
    return True


def _goes_unwatched() -> bool:
    """Whether the next step goes unwatched, and does not end a stretch of such steps."""
    recording = attach.current()
    assert recording is not None
    return recording.session.position.unwatched and recording.unwatched._left > 1


def _timed(step: Step, steps: int, counts: Callable[[], bool] = _always) -> float:
    taken: list[int] = []
    for _ in range(_WARM):
        step()
    while len(taken) < steps:
        counted = counts()
        began = thread_time_ns()
        step()
        if counted:
            taken.append(thread_time_ns() - began)
    return median(taken)


_REQUESTS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; }
void end(void) { CALLGRIND_STOP_INSTRUMENTATION; }
"""


def _counted(step: Step, steps: int, counts: Callable[[], bool] = _always) -> int:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "requests.so"
        command = ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=_REQUESTS, text=True, check=True)
        requests = ctypes.CDLL(str(library))
    for _ in range(_WARM):
        step()
    left = steps
    while left:
        if counted := counts():
            requests.begin()
        step()
        if counted:
            requests.end()
            left -= 1
    return steps


def _moments(library: Any, x: Tensor) -> None:
    library.moments(x)


def processor_ms(model: str, variant: str, steps: int) -> float:
    """Of a step, in a process of its own."""
    command = [sys.executable, __file__, "--train", model, variant, str(steps)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1e6


def million_instructions(model: str, variant: str, steps: int) -> float:
    """Of a step, all threads."""
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null", sys.executable]
    done = subprocess.run(
        [*command, __file__, "--counted", "--train", model, variant, str(steps)],
        capture_output=True,
        text=True,
        check=False,
    )
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or counted is None:
        sys.exit(f"{variant} of {model} has failed under valgrind:\n{done.stderr[-2000:]}")
    return int(counted[1]) / steps / 1e6


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="cnn,gpt")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--instructions", action="store_true", help="count with valgrind, one round")
    parser.add_argument("--train", nargs=3, metavar=("MODEL", "VARIANT", "STEPS"), help=argparse.SUPPRESS)
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train(given.train[0], given.train[1], int(given.train[2]), counted=given.counted)
        return
    if given.instructions and shutil.which("valgrind") is None:
        sys.exit("valgrind is missing: on Debian, apt-get install valgrind")
    measure, unit = (
        (million_instructions, "million instructions") if given.instructions else (processor_ms, "processor ms")
    )
    print(f"| model | variant | {unit} a step | ÷ plain |\n|---|---|---|---|", flush=True)
    for model in given.models.split(","):
        variants = given.variants.split(",")
        taken: dict[str, list[float]] = {variant: [] for variant in variants}
        for _ in range(1 if given.instructions else given.rounds):
            for variant in variants:
                taken[variant].append(measure(model, variant, given.steps))
        for variant in variants:
            each = median(taken[variant])
            print(f"| {model} | {variant} | {each:,.2f} | {each / median(taken[variants[0]]):.3f} |", flush=True)


if __name__ == "__main__":
    main()
