"""What models of five sizes pay: whole processes of one script, plain and under `firstfault run`, in turn.

    python tests/benchmarks/whole_runs.py [--pairs 5] [--models small,medium,deep,cnn,gpt] [--steps 20000]
        [--options "--budget off"] [--lost]

Each process trains a model on one thread, an MLP or one of models.py (fewer steps of these). It prints what its first steps (500,
at most a quarter) and the second half of its steps took: wall time, and time of the processor, which others on the machine
disturb less. Printed are medians over the pairs of recorded ÷ plain, for these stretches and for the whole process from its start
to its end, with the supervisor. The training's last loss must be equal. ``own`` is 1 + what the recorder accounts for itself in
these steps ÷ what they take plain. Of the whole process it is all that it accounts for, its start and end and its parent process
included. Its clock within steps is that on the wall.

``--lost`` makes one weight NaN once the first steps are over, so that all others are those of a run that is lost. What follows at
once, up to the half of the steps, is printed by itself too.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from firstfault.analyzer import Trace

MODELS = {"small": (32, 2, 32), "medium": (64, 4, 64), "deep": (48, 30, 64)}
"""Width, layers, batch."""
LARGE = {"cnn": 20, "gpt": 100}
"""Models of models.py, and how many times fewer steps of them are made."""

SCRIPT = """
import json, sys, time, torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
BUILD
marks = {0: (time.perf_counter(), time.thread_time())}
early = min(500, steps // 4)
for step in range(steps):
    if lost and step == early:
        with torch.no_grad():
            next(model.parameters()).view(-1)[0] = float("nan")
    LOOP
    if step + 1 in {early, steps // 2, steps}:
        marks[step + 1] = (time.perf_counter(), time.thread_time())
json.dump({"marks": list(marks.items()), "loss": float(loss.detach() if torch.is_tensor(loss) else loss)}, open(out, "w"))
"""
PERCEPTRON = """
width, layers, batch, steps, out, lost = *map(int, sys.argv[1:5]), sys.argv[5], "lost" in sys.argv
hidden = [part for _ in range(layers - 2) for part in (nn.Linear(width, width), nn.ReLU())]
model = nn.Sequential(nn.Linear(16, width), nn.ReLU(), *hidden, nn.Linear(width, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(1024, 16)
y = x[:, :1].sin() + x[:, 1:2] * x[:, 2:3]
"""
PERCEPTRON_STEP = """
    at = step * batch % 1024
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x[at : at + batch]), y[at : at + batch])
    loss.backward()
    optimizer.step()
"""
ONE_OF_MODELS = """
kind, folder, steps, out, lost = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], "lost" in sys.argv
sys.path.insert(0, folder)
import models
made = getattr(models, kind + "_step")()
model = made.model
"""


def script_of(model: str) -> str:
    """The training script of a model."""
    if model in MODELS:
        return SCRIPT.replace("BUILD", PERCEPTRON).replace("    LOOP\n", PERCEPTRON_STEP.lstrip("\n"))
    return SCRIPT.replace("BUILD", ONE_OF_MODELS).replace("LOOP", "loss = made()")


def steps_of(model: str, steps: int) -> int:
    return steps // LARGE.get(model, 1)


def _installed(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Python keeps compiled modules, as pip leaves them where firstfault is installed."""
    return {k: v for k, v in environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def own_account(run: Path, steps: int) -> dict[str, float]:
    """Microseconds that the recorder says it took: a step by stretch, and in all."""
    with Trace(run) as trace:
        rows = trace.sql(
            "SELECT step, sum(ns) FILTER (part NOT IN ('start', 'end')) / 1e3 FROM recorder_stats GROUP BY step ORDER BY step"
        ).rows()
        aside = trace.sql("SELECT sum(ns) / 1e3 FROM recorder_stats WHERE part IN ('start', 'end')").item()
        outside = trace.exit.cost if trace.exit is not None else None
    assert outside is not None, "the supervisor has not said what it took"
    aside_wall = aside + (outside.before_ns + outside.after_ns) / 1e3
    aside_processor = aside + outside.processor_ns / 1e3
    told = [(0, 0.0)]  # each row tells what was taken since the one before
    for step, us in rows:
        told.append((step + 1, told[-1][1] + (us or 0.0)))

    early = min(500, steps // 4)

    def until(wanted: int) -> float:
        before = max((t for t in told if t[0] <= wanted), key=lambda t: t[0])
        after = min((t for t in told if t[0] >= wanted), key=lambda t: t[0], default=before)
        part = (wanted - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 0.0
        return before[1] + part * (after[1] - before[1])

    late = (until(steps) - until(steps // 2)) / (steps - steps // 2)
    steps_us = told[-1][1]
    return {
        "first": until(early) / early,
        "late": late,
        "whole process, wall": steps_us + aside_wall,
        "whole process, processor": steps_us + aside_processor,
    }


def run(
    script: Path, model: str, steps: int, *, recorded: bool, options: Sequence[str] = (), lost: bool = False
) -> tuple[dict[str, float], float, dict[str, float]]:
    """Microseconds a step by stretch, those of the whole process, the last loss, and the recorder's own account."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        tool = ["-m", "firstfault", "run", "--quiet", *options, "--out", f"{folder}/run"] if recorded else []
        shape = MODELS.get(model) or (model, str(Path(__file__).parent))
        arguments = [*map(str, (*shape, steps)), str(out), *(["lost"] if lost else [])]
        subprocess.run([sys.executable, *tool, str(script), *arguments], check=True, env=_installed(os.environ))
        took = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = json.loads(out.read_text())
        own = own_account(Path(folder) / "run", steps) if recorded else {}
    (_, first), (until, early), (half, middle), (_, last) = found["marks"]
    late = steps - half
    return (
        {
            "first steps, wall": (early[0] - first[0]) / until * 1e6,
            "steps up to the half, wall": (middle[0] - early[0]) / (half - until) * 1e6,
            "late steps, wall": (last[0] - middle[0]) / late * 1e6,
            "late steps, processor": (last[1] - middle[1]) / late * 1e6,
            "whole process, wall": took * 1e6,
            "whole process, processor": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e6,
        },
        found["loss"],
        own,
    )


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--models", default=",".join([*MODELS, *LARGE]))
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--options", default="", help="options of `firstfault run`")
    parser.add_argument("--lost", action="store_true", help="one weight is made NaN behind the first steps")
    given = parser.parse_args()
    print("| model | stretch | plain | recorded ÷ plain | own |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        for model in given.models.split(","):
            script.write_text(script_of(model))
            steps, pairs = steps_of(model, given.steps), []
            for _ in range(given.pairs):
                plain, loss, _ = run(script, model, steps, recorded=False, lost=given.lost)
                recorded, same, own = run(
                    script, model, steps, recorded=True, options=given.options.split(), lost=given.lost
                )
                assert str(loss) == str(same), "recording has changed the training"
                pairs.append((plain, recorded, own))
            for stretch in pairs[0][0]:
                base = statistics.median(plain[stretch] for plain, *_ in pairs)
                ratio = statistics.median(recorded[stretch] / plain[stretch] for plain, recorded, _ in pairs)
                account = [
                    1 + us / plain[stretch]
                    for plain, _, own in pairs
                    for key, us in own.items()
                    if stretch.startswith(key)
                ]
                told = f"{statistics.median(account):.2f}" if account else ""
                unit = f"{base / 1e6:.1f} s" if stretch.startswith("whole") else f"{base:.0f} µs"
                print(f"| {model} | {stretch} | {unit} | {ratio:.2f} | {told} |", flush=True)


if __name__ == "__main__":
    main()
