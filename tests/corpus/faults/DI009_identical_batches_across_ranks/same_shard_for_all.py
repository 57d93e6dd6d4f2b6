"""A training with the fault identical-batches-across-ranks; arguments: [ONSET] [SEED]."""

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


def same_shard_for_all(rank, s):
    """The sampler is given rank 0 on every rank."""
    data = dataset()
    sampler = DistributedSampler(data, 2, 0 if s == 0 else rank, shuffle=True)
    model = DistributedDataParallel(network())
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for a, b in DataLoader(data, 16, sampler=sampler):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


def main(rank, onset, seed, store):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=20)
    )
    torch.manual_seed(seed)
    same_shard_for_all(rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    onset, seed = (*sys.argv[1:], "14", "0")[:2]
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, (int(onset), int(seed), f"{folder}/store"), nprocs=2, start_method="fork")
