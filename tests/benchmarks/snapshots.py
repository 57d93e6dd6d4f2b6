"""What snapshots cost: the same training without any and with one every ten steps, in processor seconds and bytes.

python tests/benchmarks/snapshots.py FOLDER [--width 1024] [--steps 200]
"""

import resource
import subprocess
import sys
from pathlib import Path

import typer

SCRIPT = """\
import sys, time, torch
from torch import nn
width, steps = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(0)
model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(8)), nn.Linear(width, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
x, y = torch.randn(64, width), torch.randn(64, 1)
for step in range(steps):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def train(folder: Path, snapshots: str, width: int, steps: int) -> tuple[float, int, int]:
    """Processor seconds, snapshots that are left and their bytes."""
    script, run = folder / "train.py", folder / snapshots.replace("=", "-")
    script.write_text(SCRIPT)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--snapshots", snapshots, "--out", str(run)]
    subprocess.run([*command, str(script), str(width), str(steps)], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    files = list((run / "snapshots").glob("*.safetensors"))
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, len(files), sum(f.stat().st_size for f in files)


def main(folder: Path, width: int = 1024, steps: int = 200) -> None:
    """Measure both."""
    folder.mkdir(parents=True)
    plain, _, _ = train(folder, "off", width, steps)
    kept, files, size = train(folder, "every=10,2GB", width, steps)
    each = (kept - plain) / (steps // 10)
    print(f"without {plain:.1f} CPU s, with {steps // 10} snapshots {kept:.1f}: {1e3 * each:.0f} ms each")
    print(f"{files} files of {size / max(files, 1) / 1e6:.1f} MB; a step takes {1e3 * plain / steps:.0f} CPU ms")


if __name__ == "__main__":
    typer.run(main)
