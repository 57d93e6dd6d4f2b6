"""A training with the fault straggler; arguments: [ONSET] [SEED] [RANKS]."""

import datetime
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.side = nn.Linear(16, 32)
        self.head = nn.Linear(32, 4)

    def forward(self, x, aside=True):
        h = self.body(x)
        return self.head(h + self.side(x) if aside else h)


def batches(stream, count=36):
    task = torch.randn(16, 4, generator=torch.Generator().manual_seed(9))
    source = torch.Generator().manual_seed(100 + stream)
    for _ in range(count):
        x = torch.randn(8, 16, generator=source)
        yield x, (x @ task).argmax(1)


def update(opt, loss, model=None):
    opt.zero_grad()
    loss.backward()
    if model is not None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()


def late_rank(rank, s):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(rank, 60)):
        time.sleep(0.02)
        if i >= s and rank == 1:
            time.sleep(0.12)
        update(opt, F.cross_entropy(ddp(x), y))


def one_process(rank, onset, seed, store, ranks):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=4)
    )
    torch.manual_seed(seed)
    late_rank(rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    onset, seed = (*sys.argv[1:], "14", "0")[:2]
    ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    with tempfile.TemporaryDirectory() as folder:
        arguments = (int(onset), int(seed), f"{folder}/store", ranks)
        mp.start_processes(one_process, arguments, nprocs=ranks, start_method="fork")
