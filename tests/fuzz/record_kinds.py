"""Records small runs of every kind that a folder can be of, for damage.py to break.

    python tests/fuzz/record_kinds.py FOLDER

healthy, nan (a capture and its plan), raised (an exception record), killed (a journal that was never closed, no exit record),
resumed (two attempts), ranks (two of them, collectives), profiled (windows of the profiler), unwatched (steps that were only
counted), lost (killed among such steps with its supervisor: their last rows are in a mapped file).
"""

import subprocess
import sys
import textwrap
from pathlib import Path

SCRIPT = """
import os, signal, sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
kind = sys.argv[1]
ranks = "WORLD_SIZE" in os.environ
if ranks:
    torch.distributed.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
if ranks:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20)
x = torch.randn(320, 8)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16, shuffle=True)
if kind == "resumed" and os.path.exists("checkpoint.pt"):
    model.load_state_dict(torch.load("checkpoint.pt"))
step = 0
for epoch in range(int(sys.argv[2])):
    for batch, target in loader:
        if kind == "nan" and step == 25:
            batch[3, 2] = float("nan")
        if kind == "raised" and step == 25:
            batch = batch[:, :7]
        loss = (model(batch) - target).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            if not ranks:
                torch.save(model.state_dict(), "checkpoint.pt")
        if kind in {"killed", "resumed"} and step == 33 and not os.path.exists("second"):
            if kind == "killed":
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "lost" and step == 2394:
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
    model.eval()
    with torch.no_grad():
        model(x)
    model.train()
    scheduler.step()
if ranks:
    torch.distributed.destroy_process_group()
"""

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
KINDS: dict[str, tuple[list[str], list[str], int]] = {
    "healthy": (["--budget", "off"], [], 3),
    "nan": (["--budget", "off"], [], 3),
    "raised": (["--budget", "off"], [], 3),
    "killed": (["--budget", "off"], [], 3),
    "resumed": (["--budget", "off"], [], 3),
    "ranks": ([], TORCHRUN, 3),
    "profiled": (["--profile", "auto"], [], 12),
    "unwatched": ([], [], 120),
    "lost": ([], [], 120),
}
"""Name → options of the recorder, what starts the script, epochs of twenty steps."""


def record(folder: Path, kind: str) -> None:
    """One run in ``folder``/``kind``."""
    options, starter, epochs = KINDS[kind]
    work = folder / "work" / kind
    work.mkdir(parents=True)
    (work / "train.py").write_text(textwrap.dedent(SCRIPT), "utf-8")
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", *options]
    script = [*starter, str(work / "train.py"), kind, str(epochs)]
    subprocess.run(
        [*command, "--out", str(folder / kind), *script], cwd=work, check=False, capture_output=True, timeout=600
    )
    if kind == "resumed":
        (work / "second").touch()
        subprocess.run([*command, "--resume", str(folder / kind), *script], cwd=work, check=True, timeout=600)


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    for kind in KINDS:
        if not (folder / kind).exists():
            record(folder, kind)
        files = [p for p in (folder / kind).rglob("*") if p.is_file()]
        print(f"{kind:10} {len(files):4} files {sum(p.stat().st_size for p in files):9,} bytes")


if __name__ == "__main__":
    main()
