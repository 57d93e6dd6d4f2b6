"""A training with the fault ddp-bypassed; arguments: [ONSET] [SEED]."""

import datetime
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.set_num_threads(1)


def dataset():
    g = torch.Generator().manual_seed(3)
    x = torch.randn(640, 12, generator=g)
    return TensorDataset(x, (x[:, 0] + x[:, 1] > 0).long() + (x[:, 2] > 0.5).long())


def network():
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))


def calls_the_module_inside(rank, s):
    """From some step on the loop calls model.module, so gradients are no longer averaged."""
    data = dataset()
    model = DistributedDataParallel(network())
    opt = optim.SGD(model.parameters(), lr=0.05)
    step = 0
    for epoch in range(2):
        sampler = DistributedSampler(data, 2, rank)
        sampler.set_epoch(epoch)
        for a, b in DataLoader(data, 16, sampler=sampler):
            net = model.module if step >= s else model
            opt.zero_grad()
            F.cross_entropy(net(a), b).backward()
            opt.step()
            step += 1


def main(rank, onset, seed, store):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=20)
    )
    torch.manual_seed(seed)
    calls_the_module_inside(rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    onset, seed = (*sys.argv[1:], "14", "0")[:2]
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, (int(onset), int(seed), f"{folder}/store"), nprocs=2, start_method="fork")
