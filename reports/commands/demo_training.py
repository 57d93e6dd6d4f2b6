"""`firstfault demo`: a real training with a real fault, recorded through `firstfault run`, diagnosed, and checked.

The truth stands here, beside the demo; nothing of it reaches the analyzer.
"""

import secrets
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from ...analyzer import Trace, Verdict, diagnose
from ...schemas.files.layout import OUTPUT_LOG, RUN_JSON
from ..page.render import write_page
from ..page.terminal import print_verdict
from ..text.errors import DemoError
from ..text.wording import show_name
from .find_run import DEFAULT_FOLDER
from .progress import sign_of_life

SCRIPT = Path(__file__).parents[1] / "demo_script" / "train_gpt.py"
STEPS = 64
FAULT_STEP = 48


@dataclass(frozen=True, slots=True)
class Truth:
    """What the demo did to the training: the name that a right diagnosis gives, the first bad step, and the module.

    ``module`` is None where no module is at fault: the data, the schedule. ``story`` says what was done.
    """

    name: str | None
    step: int | None
    module: str | None
    story: str


TRUTHS = {
    "fully-masked-attention-row": Truth(
        "fully-masked-attention-row",
        FAULT_STEP,
        "blocks.0.attn",
        "a sample cut behind the end of its file: nothing but padding, so that attention has nothing to look at",
    ),
    "lr-spike": Truth(
        "lr-spike",
        FAULT_STEP,
        None,
        "a typo in the schedule: a learning rate of 1 for four steps, five hundred times too high",
    ),
    "outlier-batch": Truth(
        "outlier-batch", FAULT_STEP, None, "a batch whose place-in-file channel was not divided by the size of the file"
    ),
    "fp16-overflow": Truth(
        "fp16-overflow", FAULT_STEP, "blocks.1.mlp", "a float16 MLP whose gain was raised beyond what float16 can hold"
    ),
    "killed": Truth(
        "killed-by-signal", FAULT_STEP, "blocks.1.mlp", "SIGKILL in the middle of a forward pass, as by the OOM killer"
    ),
    "shape-error": Truth("shape-or-dtype-error", FAULT_STEP, "layout", "a batch from an old cache, channels first"),
    "none": Truth(None, None, None, "nothing: a healthy training"),
}
"""Demo fault → what is true of it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A demo that has run. ``wrong``: what the diagnosis says other than the truth; empty where it agrees."""

    run: Path
    page: Path
    verdict: str
    wrong: list[str]


def run_demo(console: Console, fault: str, out: Path | None) -> Shown:
    """Record, diagnose, report, and compare the diagnosis with the truth. Raises DemoError."""
    if fault not in TRUTHS:
        raise DemoError(f"there is no demo fault {fault!r}; choose one of {', '.join(TRUTHS)}")
    truth = TRUTHS[fault]
    run = out or _fresh_folder(fault)
    console.print(
        f"Training a small GPT on Python's own source text, recorded into {run}", markup=False, soft_wrap=True
    )
    record(console, fault, run)
    with sign_of_life(console, "Reading and judging the run …"), Trace(run) as trace:
        verdict = diagnose(trace)
        page = write_page(trace, verdict, run.parent / f"{run.name}-report.html")
        console.print()
        print_verdict(console, trace, verdict)
    missed = disagreements(verdict, truth)
    console.print()
    console.print(f"What was done: {truth.story}.", markup=False)
    if missed:
        console.print(f"The diagnosis does not agree: {'; '.join(missed)}.", markup=False, style="red")
    else:
        console.print(f"The diagnosis agrees: {_in_words(truth)}.", markup=False, style="green")
    console.print(f"Report: {page.resolve()}", markup=False, soft_wrap=True)
    return Shown(run, page, verdict.verdict, missed)


def record(console: Console, fault: str, run: Path) -> None:
    """Run the demo script under `firstfault run`. A failing script is no error here."""
    command = [sys.executable, "-P", "-m", "firstfault", "run", "--out", str(run), str(SCRIPT)]
    command += ["--fault", fault, "--fault-step", str(FAULT_STEP), "--steps", str(STEPS)]
    with sign_of_life(console, f"Training {STEPS} steps …"):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if not (run / RUN_JSON).exists():
        words = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
        raise DemoError(f"{run}: the training was not recorded: {words[-1]}")
    if fault == "none" and done.returncode != 0:
        raise DemoError(f"{run}: the healthy training ended with status {done.returncode}; see {run / OUTPUT_LOG}")


def disagreements(verdict: Verdict, truth: Truth) -> list[str]:
    """What the first cause of a verdict says other than the truth; empty when it agrees in name, step and module."""
    cause = verdict.causes[0] if verdict.causes else None
    if truth.name is None:
        if verdict.verdict == "healthy":
            return []
        return [f"the run was healthy, the verdict is {verdict.verdict}" + (f" ({cause.name})" if cause else "")]
    if cause is None:
        return [f"no cause was named, the truth is {truth.name}"]
    wrong: list[str] = []
    if cause.name != truth.name:
        wrong.append(f"cause {cause.name}, the truth is {truth.name}")
    if cause.step != truth.step:
        wrong.append(f"step {cause.step}, the truth is {truth.step}")
    if (cause.module or None) != truth.module:
        wrong.append(f"module {_module(cause.module)}, the truth is {_module(truth.module)}")
    return wrong


def _fresh_folder(fault: str) -> Path:
    time = datetime.now(tz=UTC).strftime("%Y%m%dT%H%M%SZ")
    return DEFAULT_FOLDER / f"{time}-demo-{fault}-{secrets.token_hex(2)}"


def _in_words(truth: Truth) -> str:
    if truth.name is None:
        return "healthy"
    return f"{truth.name} at step {truth.step}" + (f" in {truth.module}" if truth.module else "")


def _module(name: str | None) -> str:
    return show_name(name, empty="none")
