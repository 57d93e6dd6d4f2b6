"""Memory of the recorder over a long run: resident memory of the training process after warm-up and at the end.

    python tests/benchmarks/memory_growth.py [--steps 20000]

The same training runs plain and recorded, each in a process of its own under `firstfault run`'s conditions (compaction in
another process for the recorded one); printed is how much each grew after its first fifth.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import resource, sys
import torch
from pathlib import Path
torch.set_num_threads(1)
torch.manual_seed(0)
steps = int(sys.argv[1])
model = torch.nn.Sequential(*(m for _ in range(4) for m in (torch.nn.Linear(16, 16), torch.nn.ReLU())))
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
page = resource.getpagesize()
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * page
for step in range(steps):
    if step == steps // 5:
        warm = resident()
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
print((resident() - warm) / 2**20)
"""


def growth(steps: int, *, recorded: bool, every: int = 1) -> float:
    """MiB by which the process grew from a fifth of the steps to the end."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT, "utf-8")
        options = ["--quiet", "--budget", "off", "--every", str(every), "--out", str(Path(folder) / "run")]
        front = ["-m", "firstfault", "run", *options] if recorded else []
        done = subprocess.run(
            [sys.executable, *front, str(script), str(steps)], capture_output=True, text=True, check=True
        )
    return float(done.stdout.split()[-1])


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20_000)
    steps = parser.parse_args().steps
    print(f"plain     {growth(steps, recorded=False):6.1f} MiB over {steps} steps")
    print(f"recorded  {growth(steps, recorded=True):6.1f} MiB, everything at every step")


if __name__ == "__main__":
    main()
