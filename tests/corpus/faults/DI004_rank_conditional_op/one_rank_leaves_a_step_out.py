"""A training with the fault rank-conditional-op; arguments: [ONSET] [SEED]."""

import sys
import tempfile

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


def one_rank_leaves_a_step_out(rank, s):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(rank)):
        opt.zero_grad()
        F.cross_entropy(ddp(x), y).backward()
        if i == s and rank == 1:
            continue
        opt.step()


def main(rank, onset, seed, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(seed)
    one_rank_leaves_a_step_out(rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    onset, seed = (*sys.argv[1:], "0")[:2]
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, (int(onset), int(seed), f"{folder}/store"), nprocs=2, start_method="fork")
