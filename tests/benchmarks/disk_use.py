"""What a recording takes on disk: bytes a row of tensor statistics, bytes a step, and what eight hours would take.

    python tests/benchmarks/disk_use.py [--steps 200] [--width 256]

The benchmark GPT learns to count (token t + 1 follows t) under `firstfault run`, once with everything measured at every step
and once with the default budget, and the folder is measured when the supervisor has finished it. Bytes a row are the sizes of
the parts of tensor_stats over their rows. The extrapolation takes the last half of the steps, without the start of the run
that is always recorded in full, and leaves out retention (``--disk-limit``).
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from firstfault.schemas.files.layout import parts

SCRIPT = """
import sys, torch
import torch.nn.functional as F
sys.path.insert(0, sys.argv[3])
from models import GPT
torch.manual_seed(0)
torch.set_num_threads(1)
model = GPT(width=int(sys.argv[2]))
optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
for _ in range(int(sys.argv[1])):
    tokens = (torch.randint(2048, (8, 1)) + torch.arange(129)) % 2048
    optimizer.zero_grad()
    F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
EIGHT_HOURS = 8 * 3600 * 10
"""Steps of eight hours at ten a second."""


def measure(steps: int, width: int, options: list[str]) -> tuple[int, float, float, float]:
    """Rows of tensor statistics, bytes a row, and bytes a step of all tables over the whole run and over its last half."""
    with tempfile.TemporaryDirectory() as folder:
        script, run = Path(folder) / "train.py", Path(folder) / "run"
        script.write_text(SCRIPT, "utf-8")
        command = [sys.executable, "-m", "firstfault", "run", "--quiet", *options, "--out", str(run), str(script)]
        subprocess.run([*command, str(steps), str(width), str(Path(__file__).parent)], check=True)
        files = [part.path for part in parts(run, "tensor_stats")]
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        size = sum(file.stat().st_size for file in files)
        everything = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
        late = sum(
            pc.sum(pc.greater_equal(pq.ParquetFile(f).read(["step"])["step"], steps // 2)).as_py() or 0 for f in files
        )
    other = (everything - size) / steps
    return rows, size / rows, everything / steps, late / (steps - steps // 2) * size / rows + other


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=256)
    given = parser.parse_args()
    for name, options in (("everything", ["--budget", "off"]), ("default budget", [])):
        rows, a_row, a_step, late = measure(given.steps, given.width, options)
        print(
            f"{name:15s} {rows:8,d} rows  {a_row:5.1f} bytes a row  {a_step / 1e3:6.1f} kB a step,"
            f" {late / 1e3:6.1f} in the last half  {late * EIGHT_HOURS / 1e9:6.2f} GB in 8 h at 10 steps/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
