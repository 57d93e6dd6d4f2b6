"""A sampler of the script's own is iterated by the training and asked nothing by the recorder."""

import sys
from pathlib import Path

import forked
import pyarrow.parquet as pq
from firstfault.schemas.files.layout import parts

SCRIPT = """
import random
import torch
from torch.utils.data import BatchSampler, DataLoader, TensorDataset


class Buckets(BatchSampler):
    def __init__(self, size):
        self.size = size

    def _made(self):
        order = list(range(self.size))
        random.shuffle(order)
        return [order[i : i + 8] for i in range(0, self.size, 8)]

    def __iter__(self):
        return iter(self._made())

    def __len__(self):
        return len(self._made())  # draws from the same generator


random.seed(0)
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4))
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for loader in (DataLoader(data, batch_sampler=Buckets(64)), DataLoader(data, batch_size=8, shuffle=True)):
    for epoch in range(2):
        for (x,) in loader:
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            opt.step()
            print(loss.item().hex())
"""


def test_a_length_that_draws_random_numbers_is_not_asked_for(tmp_path: Path) -> None:
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text(SCRIPT)
    plain = forked.run([sys.executable, script], capture_output=True, text=True, check=True)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", str(run), str(script)]
    recorded = forked.run(command, capture_output=True, text=True, check=True)

    assert recorded.stdout == plain.stdout
    rows = [row for part in parts(run, "batches") for row in pq.read_table(part.path).to_pylist()]
    known = [row["loader_batches"] for row in rows if row["loader_id"] is not None]
    assert set(known) == {None, 8}
