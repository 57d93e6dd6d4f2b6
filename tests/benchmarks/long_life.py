"""What hours of recording cost: memory, disk, files and step time of a cheap training with default options, sample by sample.

    python tests/benchmarks/long_life.py --hours 8 [--again 0.1] [--samples 12] [--pause 0] [--out FOLDER]

`firstfault run` records a small model without end. Every sample reads resident memory, descriptors and threads of the training
and of the supervisor, bytes and files of the run folder, and the training's own step time: processor time and wall clock, each
the mean since the sample before. After ``--hours`` both are killed with SIGKILL. The run is then resumed for a share of that time
(``--again``), killed again, checked and diagnosed in a process of its own. The training counts the steps that its optimizer
returned from in a mapped file, which survives the kill: a step that the recording does not know is lost. With ``--pause`` every
step waits for its data that many milliseconds, so that the machine can be used meanwhile. A FOLDER that holds a run already, as
after the end of its machine, is resumed from the start.
"""

import argparse
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

SCRIPT = """
import mmap, struct, sys, time
from pathlib import Path
import torch
folder, written, pause = Path(sys.argv[1]), Path(sys.argv[1]) / "checkpoint.new", float(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(0)
layers = [m for _ in range(4) for m in (torch.nn.Linear(32, 32), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers, torch.nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
step = 0
if (folder / "checkpoint.pt").exists():
    saved = torch.load(folder / "checkpoint.pt")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
with (folder / "counted.bin").open("r+b") as file:
    counted = mmap.mmap(file.fileno(), 24)
done, = struct.unpack_from("<q", counted)
target = torch.randn(32)
while True:
    time.sleep(pause)
    x = torch.randn(32, 32)
    loss = (model(x).squeeze(1) - torch.tanh(x @ target)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    done += 1
    struct.pack_into("<qdd", counted, 0, done, time.process_time(), time.perf_counter())
    if step % 1000 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    if step % 20000 == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, written)
        written.replace(folder / "checkpoint.pt")
"""

JUDGE = """
import json, resource, sys, time
from pathlib import Path
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.reading.check import check
problems = [p.what for p in check(Path(sys.argv[1])).problems]
checked = time.process_time()
with Trace(sys.argv[1]) as trace:
    verdict = diagnose(trace)
    rows, steps = trace.sql("SELECT count(*), count(DISTINCT step) FROM steps WHERE completed").row(0)
    most, = trace.sql("SELECT max(step) FROM steps").row(0)
print(json.dumps({"problems": problems, "check_cpu_s": checked, "cpu_s": time.process_time() - checked,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10, "verdict": verdict.verdict,
    "causes": [c.name for c in verdict.causes], "recorded": verdict.run.steps_recorded, "rows": rows, "steps": steps,
    "last": most, "status": verdict.run.status}))
"""


@dataclass(frozen=True)
class Sample:
    """State of a recording at one moment."""

    hours: float
    steps: int
    cpu_ms: float
    wall_ms: float
    training_mb: float
    supervisor_mb: float
    handles: tuple[int, int]
    threads: tuple[int, int]
    disk_mb: float
    files: int

    def line(self) -> str:
        handles, threads = ("+".join(map(str, pair)) for pair in (self.handles, self.threads))
        return (
            f"{self.hours:6.2f} {self.steps:10,d} {self.cpu_ms:8.3f} {self.wall_ms:8.3f} {self.training_mb:9.1f}"
            f" {self.supervisor_mb:11.1f} {handles:>9s} {threads:>8s} {self.disk_mb:8.1f} {self.files:6d}"
        )


HEAD = (
    " hours      steps   cpu_ms  wall_ms  train_MB  superv._MB   handles  threads  disk_MB  files  (ms: of a step, since"
    " the sample before)"
)


def counted(folder: Path) -> tuple[int, float, float]:
    """Steps that were made, the training's processor time and its clock at the last of them."""
    return struct.unpack("<qdd", (folder / "counted.bin").read_bytes())


def start(folder: Path, options: list[str], pause: float) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """The supervisor and the training, once that has made a step."""
    before, *_ = counted(folder)
    command = [
        sys.executable,
        "-m",
        "firstfault",
        "run",
        "--quiet",
        *options,
        folder / "train.py",
        folder,
        str(pause / 1e3),
    ]
    with (folder / "printed.txt").open("ab") as printed:
        supervisor = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
    while counted(folder)[0] == before:
        if supervisor.poll() is not None:
            sys.exit(f"the training ended with {supervisor.returncode}: {(folder / 'printed.txt').read_text()[-2000:]}")
        time.sleep(0.1)
    [training] = psutil.Process(supervisor.pid).children()
    return supervisor, training


def sampled(
    folder: Path, training: psutil.Process, supervisor: int, seconds: float, samples: int, since: float
) -> list[Sample]:
    """Print and return a line at equal distances of time."""
    run, found = folder / "run", []
    begun = time.monotonic()
    last = counted(folder)
    for number in range(1, samples + 1):
        time.sleep(max(0.0, begun + seconds * number / samples - time.monotonic()))
        now = counted(folder)
        steps = max(1, now[0] - last[0])
        both = (training, psutil.Process(supervisor))
        files = [p.stat().st_size for p in run.rglob("*") if p.is_file()]
        found.append(
            Sample(
                hours=(time.monotonic() - since) / 3600,
                steps=now[0],
                cpu_ms=(now[1] - last[1]) / steps * 1e3,
                wall_ms=(now[2] - last[2]) / steps * 1e3,
                training_mb=both[0].memory_info().rss / 2**20,
                supervisor_mb=both[1].memory_info().rss / 2**20,
                handles=(both[0].num_fds(), both[1].num_fds()),
                threads=(both[0].num_threads(), both[1].num_threads()),
                disk_mb=sum(files) / 2**20,
                files=len(files),
            )
        )
        last = now
        print(found[-1].line(), flush=True)
    return found


def kill(supervisor: subprocess.Popen[bytes], training: psutil.Process) -> None:
    """Both at once, by the one signal that nobody can answer."""
    supervisor.send_signal(signal.SIGKILL)
    training.send_signal(signal.SIGKILL)
    supervisor.wait()
    psutil.wait_procs([training], timeout=60)


def flat(samples: list[Sample]) -> str:
    """How the second half differs from the first, the first sample left out: its process was still warming up."""
    held = samples[1:]
    if len(held) < 4:
        return "too few samples to tell what grew"
    middle = len(held) // 2
    hours = held[-1].hours - held[0].hours
    said = []
    for name, unit in (("training_mb", "MB"), ("supervisor_mb", "MB"), ("cpu_ms", "ms"), ("files", "files")):
        before, after = (median(getattr(s, name) for s in half) for half in (held[:middle], held[middle:]))
        said.append(f"{name} {before:.3f} → {after:.3f} {unit}")
    said.append(f"disk {(held[-1].disk_mb - held[0].disk_mb) / hours:.1f} MB an hour")
    said.append(f"{(held[-1].disk_mb - held[0].disk_mb) * 2**20 / (held[-1].steps - held[0].steps):.1f} bytes a step")
    return "medians of the first and the second half: " + ", ".join(said)


def main() -> None:
    """Record, kill, resume, kill, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--again", type=float, default=0.1, help="share of the hours for which it is resumed")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--pause", type=float, default=0.0, help="milliseconds that a step waits for its data")
    parser.add_argument("--out", type=Path, help="a new folder, or one whose run is resumed; kept")
    given = parser.parse_args()
    folder = given.out or Path(tempfile.mkdtemp(prefix="firstfault-long-"))
    folder.mkdir(parents=True, exist_ok=True)
    run = folder / "run"
    goes_on = run.exists()
    (folder / "train.py").write_text(SCRIPT, "utf-8")
    if not goes_on:
        (folder / "counted.bin").write_bytes(bytes(24))
    os.chdir(folder)
    begun = time.monotonic()
    print(HEAD, flush=True)
    supervisor, training = start(folder, ["--resume" if goes_on else "--out", str(run)], given.pause)
    samples = sampled(folder, training, supervisor.pid, given.hours * 3600, given.samples, begun)
    kill(supervisor, training)
    first, *_ = counted(folder)
    print(f"killed after {first} steps; resumed", flush=True)
    supervisor, training = start(folder, ["--resume", str(run)], given.pause)
    sampled(
        folder,
        training,
        supervisor.pid,
        given.hours * 3600 * given.again,
        max(2, int(given.samples * given.again)),
        begun,
    )
    kill(supervisor, training)
    steps, *_ = counted(folder)
    print(flat(samples))
    done = subprocess.run([sys.executable, "-c", JUDGE, run], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    said = json.loads(done.stdout)
    print(f"killed after {steps} steps; known {said['recorded']}, lost {steps - said['recorded']}")
    print(json.dumps(said))
    print(f"the folder is kept: {folder}")


if __name__ == "__main__":
    main()
