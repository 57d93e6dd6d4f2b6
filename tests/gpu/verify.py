"""What only a device can show, in one table: that recording changes no bit, makes the host wait for nothing, and what it costs.

    make gpu, or python tests/gpu/verify.py [--device cuda] [--seconds 420] [--parts identity waits …]

Parts, each of which fails by itself:

- identity: losses and final weights of the same training, plain, plain once more, and with everything recorded, equal to the bit
  under deterministic algorithms. Where the two plain ones differ, the device does not repeat itself and nothing can be said.
- waits: how often the host waits for the device in a steady step of the default budget and of everything recorded, beyond the
  plain one. torch's own warnings (torch.cuda.set_sync_debug_mode) and the synchronising calls that the profiler sees both count.
- cost: time of a recorded step ÷ that of a plain one, blocks of the two in turn in random order, the device synchronised at the
  end of each block; median over the pairs, with the 10 % and 90 % quantiles.
- statistics: moments of the same tensors by the device's fused kernel, by torch's operators on it, and by the host.
- kill: SIGKILL to the supervisor and to a training on the device. Completed steps are lost where neither a row nor the breadcrumb
  counts them; rows of the last steps may be missing, because their numbers were still on the device.

Without a CUDA device it says so and exits with 2. ``--device cpu --tiny`` tries every part that needs none, with
``TRITON_INTERPRET=1`` in the environment the fused kernel too.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used

import torch
from firstfault.analyzer import Trace
from firstfault.recorder import Recorder
from firstfault.recorder.storage.segments import completed_steps
from firstfault.recorder.tensors.device import DeviceStatistics, flat_of, moments_row, wait_for
from firstfault.recorder.tensors.measure import measure
from firstfault.recorder.tensors.moments import Moments
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from models import Step, cnn_step, gpt_step

TINY: dict[str, Callable[..., Step]] = {
    "gpt": partial(gpt_step, vocabulary=64, batch=2, length=16, width=32, layers=2),
    "cnn": partial(cnn_step, blocks=3, batch=4),
}
WHOLE: dict[str, Callable[..., Step]] = {"gpt": gpt_step, "cnn": cnn_step}

OPTIONS: dict[str, dict[str, str]] = {"default": {"grace": "1ms"}, "everything": {"budget": "off"}}
"""What the recorder is told; the default is that after its grace."""

WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cuStreamSynchronize")
"""Calls in which the host waits, as the profiler names them."""


class Line(NamedTuple):
    """One row of the table; ``good`` is None where there is nothing to fail."""

    part: str
    case: str
    found: str
    wanted: str
    good: bool | None


class Given(NamedTuple):
    """What the parts share."""

    device: str
    models: dict[str, Callable[..., Step]]
    steps: int
    warm: int
    """Recorded steps before those that count: the budget settles, pages and plans are made."""
    pairs: int
    elements: int
    """Of the tensors whose moments are compared."""
    until: float
    """time.monotonic() after which no further pair is begun."""


# -- training ------------------------------------------------------------------------------------------------------------------


def synchronize(device: str) -> None:
    """Wait for the device."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


@contextmanager
def recorded(step: Step, **options: str) -> Iterator[Any]:
    """The recorder, attached; it is put in and taken out by the attachment that is given."""
    with tempfile.TemporaryDirectory() as folder, Recorder(Path(folder) / "run", **options) as recorder:
        attachment = recorder._attachment
        attachment.detach()
        yield attachment
        attachment.attach()


# -- the parts -------------------------------------------------------------------------------------------------------------------


def identity(given: Given) -> Iterator[Line]:
    """Bits with and without the recorder."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        for name, make in given.models.items():
            first, again = trained(make, given), trained(make, given)
            with tempfile.TemporaryDirectory() as folder, Recorder(Path(folder) / "run", budget="off"):
                under = trained(make, given)
            steady = all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
            same = all(torch.equal(a, b) for a, b in zip(first, under, strict=True))
            found = ("equal" if same else "differ") if steady else "two plain runs differ already"
            yield Line("identity", f"{name}, {given.steps} steps", found, "equal", same if steady else None)
    finally:
        torch.use_deterministic_algorithms(False)


def trained(make: Callable[..., Step], given: Given) -> list[Tensor]:
    """All losses, and every weight at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operators that have no deterministic kind
        step = make(device=given.device, read=False)
        losses = torch.stack([torch.as_tensor(step()) for _ in range(given.steps)])
    return [losses, *(p.detach().clone() for p in step.model.parameters())]


def waits(given: Given) -> Iterator[Line]:
    """How often the host waits in a steady step."""
    for name, make in given.models.items():
        for way, options in OPTIONS.items():
            case = f"{name}, {way}"
            if not given.device.startswith("cuda"):
                yield Line("waits", case, "not applicable: no CUDA device", "0 a step", None)
                continue
            step = make(device=given.device, read=False)
            with recorded(step, **options) as attachment:
                attachment.attach()
                for _ in range(given.warm):
                    step()
                told_of, seen = waits_of(step, given)
                attachment.detach()
            for _ in range(3):
                step()
            told_of_plain, plain = waits_of(step, given)
            told, calls = ((a.total() - b.total()) / given.steps for a, b in ((told_of, told_of_plain), (seen, plain)))
            places = ", ".join(f"{place} {n / given.steps:g}" for place, n in (told_of - told_of_plain).most_common(8))
            kinds = ", ".join(f"{call} {n / given.steps:g}" for call, n in (seen - plain).most_common())
            found = f"{told:g} told by torch, {calls:g} seen by the profiler" + (
                f" ({places}; {kinds})" if told or calls else ""
            )
            yield Line("waits", case, found, "0 a step", told <= 0 and calls <= 0)


def waits_of(step: Step, given: Given) -> tuple[Counter[str], Counter[str]]:
    """In some steps: where torch warned of a wait, as file:line of the innermost Python frame, and the calls that wait, as the
    profiler has seen them."""
    synchronize(given.device)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(given.steps):
                step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    synchronize(given.device)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(given.steps):
            step()
    calls = Counter({event.key: event.count for event in profiler.key_averages() if event.key in WAITS})
    places = (f"{Path(w.filename).name}:{w.lineno}" for w in told if "synchroniz" in str(w.message))
    return Counter(places), calls


def cost(given: Given) -> Iterator[Line]:
    """Recorded ÷ plain, blocks in turn."""
    cases = [(name, way) for name in given.models for way in OPTIONS]
    for number, (name, way) in enumerate(cases):
        step = given.models[name](device=given.device, read=False)
        order, ratios, plain_ms = random.Random(0), [], []
        left = max(given.until - time.monotonic(), 0) / (len(cases) - number)
        end = time.monotonic() + left
        with recorded(step, **OPTIONS[way]) as attachment:
            attachment.attach()
            block(step, given.device, given.warm)
            attachment.detach()
            while len(ratios) < given.pairs and (len(ratios) < 3 or time.monotonic() < end):
                pair = [0.0, 0.0]
                for which in order.sample([0, 1], 2):
                    if which:
                        attachment.attach()
                        attachment.session.step_row.restart_clock()
                    block(step, given.device, 3)  # CPython learns anew what the hooks have made it forget
                    pair[which] = block(step, given.device, given.steps)
                    if which:
                        attachment.detach()
                ratios.append(pair[1] / pair[0])
                plain_ms.append(pair[0] * 1e3)
        low, *_, high = statistics.quantiles(ratios, n=10, method="inclusive")
        found = f"{statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}, {len(ratios)} pairs)"
        yield Line("cost", f"{name}, {way}, {statistics.median(plain_ms):.2f} ms plain", found, "", None)


def block(step: Step, device: str, steps: int) -> float:
    """Mean seconds of a step."""
    synchronize(device)
    began = time.perf_counter()
    for _ in range(steps):
        step()
    synchronize(device)
    return (time.perf_counter() - began) / steps


def tensors(elements: int) -> dict[str, Tensor]:
    """What is measured on both sides, made on the host."""
    torch.manual_seed(0)
    plain = torch.randn(elements)
    holed = plain.clone()
    holed[[0, 77, elements - 1]] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    return {
        "float32": plain,
        "after a ReLU": plain.relu(),
        "NaN and infinities": holed,
        "only NaN": torch.full((5000,), float("nan")),
        "large": plain * 1e25,
        "float64": plain[:5000].double(),
        "float16": plain.half(),
        "bfloat16": plain.bfloat16(),
        "integers": torch.randint(-9, 9, (4000,)),
        "truth values": plain > 0,
        "transposed": plain.view(-1, 1000).t(),
        "one element": plain[:1],
    }


def agreement(given: Given) -> Iterator[Line]:
    """Moments by the device and by the host."""
    held = tensors(given.elements)
    host = {name: measure(x, count_zeros=True) for name, x in held.items()}
    moved = {name: x.to(given.device) for name, x in held.items()}
    device = DeviceStatistics(torch.device(given.device))
    if os.environ.get("TRITON_INTERPRET") == "1":
        from firstfault.recorder.tensors import triton_kernel

        device._kernel = triton_kernel
    late = device.measure(list(moved.values()))
    pages = device.seal()
    fused = dict(zip(held, map(wait_for, late), strict=True))
    for page in pages:
        device.reuse(page)
    kernel = "the fused kernel" if device._kernel is not None else f"as recorded ({device.why_not_fused})"
    yield compared(kernel, fused, host)
    yield compared("torch's operators", {name: of_row(x) for name, x in moved.items()}, host)


def of_row(x: Tensor) -> Moments:
    """Moments by torch's operators on the device, in the order of the kernel's row."""
    flat = flat_of(x)
    nan, infinite, zero, low, high, total, squares, _ = moments_row(flat).tolist()
    finite = nan + infinite < flat.numel()
    return Moments(
        flat.numel(),
        int(nan),
        int(infinite),
        int(zero),
        low if finite else None,
        high if finite else None,
        total,
        squares,
    )


def compared(way: str, ours: dict[str, Moments], host: dict[str, Moments]) -> Line:
    """Counts and extremes exactly, the sum of squares to 1e-5, the sum to 1e-5 of what a random walk of such elements makes."""
    wrong: list[str] = []
    for name, moments in ours.items():
        wanted = host[name]
        sums = (moments.sum, wanted.sum, moments.sum_sq, wanted.sum_sq)
        assert None not in sums
        total, wanted_total, squares, wanted_squares = map(float, sums)  # pyright: ignore[reportArgumentType]
        size = (wanted.numel * wanted_squares) ** 0.5
        near = abs(squares - wanted_squares) <= 1e-5 * wanted_squares and abs(total - wanted_total) <= 1e-5 * size
        if moments[:6] != wanted[:6] or not near:
            wrong.append(name)
    found = f"{len(ours) - len(wrong)} of {len(ours)} tensors agree" + (f"; not: {', '.join(wrong)}" if wrong else "")
    return Line("statistics", way, found, "all", not wrong)


ENDLESS = """
import os, sys, torch
device, returned = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
while True:
    optimizer.zero_grad()
    model(torch.randn(32, 32, device=device)).pow(2).mean().backward()
    optimizer.step()
    os.write(returned, b".")
"""


def kill(given: Given) -> Iterator[Line]:
    """What a SIGKILL to everything leaves."""
    for way, options in (("default", []), ("everything", ["--budget", "off"])):
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            (folder / "endless.py").write_text(ENDLESS)
            run, returned = folder / "run", folder / "returned"
            command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), *options]
            training = [str(folder / "endless.py"), given.device, str(returned)]
            supervisor = subprocess.Popen([*command, *training], stderr=subprocess.DEVNULL)
            while not returned.exists() or returned.stat().st_size < 30:
                if supervisor.poll() is not None:
                    raise RuntimeError(f"the training ended with {supervisor.returncode} before it was killed")
                time.sleep(0.01)
            script = int(Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split()[0])
            time.sleep(random.Random(way).uniform(0, 1))
            supervisor.kill()
            os.kill(script, signal.SIGKILL)
            supervisor.wait()
            while not _gone(script):
                time.sleep(0.01)
            completed = returned.stat().st_size
            counted = max(completed_steps(run).values(), default=0)
            with Trace(run) as trace:
                rows = trace.sql(
                    "SELECT 1 AS steps FROM steps WHERE completed UNION ALL SELECT steps FROM unwatched_steps"
                )
            readable = int(rows["steps"].sum())
        lost = max(completed - counted, 0)
        found = f"{completed} completed, {lost} lost, {max(completed - readable, 0)} without rows"
        yield Line("kill", way, found, "0 lost", lost == 0)


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


PARTS: dict[str, Callable[[Given], Iterator[Line]]] = {
    "identity": identity,
    "waits": waits,
    "statistics": agreement,
    "kill": kill,
    "cost": cost,
}
"""In the order in which they run: the last takes what time is left."""


def lines_of(given: Given, parts: list[str]) -> Iterator[Line]:
    """All rows of some parts; a part that raises is one that failed."""
    for name in parts:
        try:
            yield from PARTS[name](given)
        except Exception as e:  # noqa: BLE001 — the other parts are wanted all the same
            yield Line(name, "", f"{type(e).__name__}: {e}", "", False)


def main() -> int:
    """Run and print; 0 if nothing failed, 1 if something did, 2 without the device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models and few steps: whether the script works")
    parser.add_argument("--seconds", type=float, default=420, help="after which the cost is measured by fewer pairs")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="only these")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print(f"no CUDA device: torch {torch.__version__} sees none here", file=sys.stderr)
        return 2
    until = time.monotonic() + options.seconds
    steps, warm, pairs, elements = (4, 6, 3, 20_000) if options.tiny else (16, 60, 30, 1_000_000)
    given = Given(options.device, TINY if options.tiny else WHOLE, steps, warm, pairs, elements, until)
    name = torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else options.device
    print(f"torch {torch.__version__} on {name}\n\n| part | case | found | wanted | |\n|---|---|---|---|---|")
    failed = 0
    for line in lines_of(given, options.parts):
        failed += line.good is False
        verdict = {True: "good", False: "FAILED", None: ""}[line.good]
        print(f"| {line.part} | {line.case} | {line.found} | {line.wanted} | {verdict} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
