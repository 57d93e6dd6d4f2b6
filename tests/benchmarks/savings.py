"""Whether the time that a performance finding promises is what fixing the script gives.

    python tests/benchmarks/savings.py [--steps 60] [--rounds 3]

Three trainings that lose time to their data, to numbers read one by one, and to one operator, each beside the same training
without it. In each round the slow one is recorded, and the verdict says what a step would gain; then both are run
unrecorded, in one process and by turns of a few steps, and the difference of their median steps is what it really gains. Both are
compared as shares of their step, because the machine may be faster or slower in the meantime. Medians over rounds.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import torch
import torch.nn.functional as F
from firstfault.analyzer import Trace, diagnose
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    """Signals with their spectra: computed at every access, or once."""

    def __init__(self, count: int, *, once: bool) -> None:
        draw = torch.Generator().manual_seed(0)
        self.raw = torch.randn(count, 60_000, generator=draw)
        self.ready = [self._decode(i) for i in range(count)] if once else None

    def _decode(self, index: int) -> torch.Tensor:
        spectrum = torch.fft.rfft(self.raw[index]).abs()
        return spectrum.sort().values[:: spectrum.numel() // 64][:64].log1p()

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.ready[index] if self.ready else self._decode(index), index % 2


def network(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, outputs))


def data(steps: int, *, fixed: bool) -> list[float]:
    """Decoding in the training's own process."""
    model, times = network(64, 2), []
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    loader = DataLoader(Signals(64, once=fixed), batch_size=8, shuffle=True)
    began = perf_counter()
    while len(times) < steps:
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            times.append(perf_counter() - began)
            began = perf_counter()
    return times


def reads(steps: int, *, fixed: bool) -> list[float]:
    """A statistic over the batch that reads every number by itself."""
    model, times = network(128, 8), []
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    total = 0.0
    began = perf_counter()
    for _ in range(steps):
        x = torch.randn(1024, 128)
        optimizer.zero_grad()
        logits = model(x)
        F.cross_entropy(logits, (x[:, :8]).argmax(1)).backward()
        optimizer.step()
        if fixed:
            total += logits.detach().square().sum().item()
        else:
            for row in logits.detach():
                for value in row:
                    total += value.item() ** 2
        times.append(perf_counter() - began)
        began = perf_counter()
    return times


class Ranked(nn.Module):
    """A layer whose output is scaled by the rank of each element, found by sorting all of them."""

    def __init__(self, *, fixed: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(512, 512)
        self.fixed = fixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x).relu()
        if self.fixed:
            return y
        with torch.no_grad():
            ranks = y.repeat(2, 1).flatten().argsort()[: y.numel()].view_as(y) / y.numel()
        return y + 0 * ranks


def operator(steps: int, *, fixed: bool) -> list[float]:
    """Sorting inside a module."""
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), Ranked(fixed=fixed), nn.Linear(512, 8))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    times: list[float] = []
    began = perf_counter()
    for _ in range(steps):
        x = torch.randn(256, 128)
        optimizer.zero_grad()
        F.cross_entropy(model(x), x[:, :8].argmax(1)).backward()
        optimizer.step()
        times.append(perf_counter() - began)
        began = perf_counter()
    return times


SCRIPTS = {
    "data": (data, "dataloader-bound", []),
    "reads": (reads, "host-sync-per-step", []),
    "operator": (operator, "slow-operator", ["--profile", "every=10"]),
}
"""Name → training, fault that it has, options of its recording."""

_TURN, _WARM = 12, 3
"""Steps of a turn, and how many of its first ones do not count."""


def promised(name: str, steps: int, folder: Path) -> tuple[float, float] | None:
    """What the verdict on the recorded slow script says that a step would gain, and what a step took without the recorder's
    own work, in ms; None where the fault is not named."""
    _, fault, options = SCRIPTS[name]
    run = folder / name
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), *options, __file__]
    subprocess.run([*command, "--run", name, "--steps", str(steps)], check=True, stdout=subprocess.DEVNULL)
    with Trace(run) as trace:
        found = next((f for f in diagnose(trace).causes if f.name == fault), None)
        step = trace.sql("SELECT median(step_ns - recorder_ns) / 1e6 FROM steps WHERE step > 5").item()
    said = re.search(r"would be (?:up to |about )?([\d.]+) ms shorter", found.message) if found else None
    return (float(said[1]), step) if said else None


def usual_steps(name: str, steps: int) -> tuple[float, float]:
    """Medians of a step without recording, in ms: of the slow training and of the other one."""
    command = [sys.executable, __file__, "--by-turns", name, "--steps", str(steps)]
    before, after = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(before), float(after)


def by_turns(name: str, steps: int) -> None:
    """Train both ways by turns and print the median step of each, in ms."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(2 * max(steps // _TURN, 1) + 2):
        fixed = turn % 2 == 1
        took = SCRIPTS[name][0](_TURN, fixed=fixed)
        if turn > 1:
            times[fixed] += took[_WARM:]
    print(*(1e3 * statistics.median(times[fixed]) for fixed in (False, True)))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", choices=SCRIPTS, help="only train; what the processes do")
    parser.add_argument("--by-turns", choices=SCRIPTS, help="train slow and fast by turns; what the processes do")
    options = parser.parse_args()
    if options.run:
        torch.manual_seed(0)
        SCRIPTS[options.run][0](options.steps, fixed=False)
        return
    if options.by_turns:
        by_turns(options.by_turns, options.steps)
        return
    print(
        f"{'script':10} {'fault':20} {'promised ms':>12} {'gained ms':>10} {'promised':>9} {'gained':>7} {'ratio':>6}"
    )
    for name, (_, fault, _) in SCRIPTS.items():
        rounds: list[tuple[float, ...]] = []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                said = promised(name, options.steps, Path(folder))
            before, after = usual_steps(name, options.steps)
            if said is not None:
                ms, step = said
                gained = before - after
                rounds.append((ms, gained, ms / step, gained / before, (ms / step) / (gained / before)))
        if not rounds:
            print(f"{name:10} {fault:20} not named")
            continue
        ms, gained, share, real, ratio = (statistics.median(values) for values in zip(*rounds, strict=True))
        print(f"{name:10} {fault:20} {ms:12.1f} {gained:10.1f} {share:9.0%} {real:7.0%} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
