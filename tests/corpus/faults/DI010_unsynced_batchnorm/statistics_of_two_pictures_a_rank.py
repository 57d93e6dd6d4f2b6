"""A training with the fault unsynced-batchnorm; arguments: [ONSET] [SEED] [RANKS]."""

import datetime
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)


def pictures(stream, count=36):
    source = torch.Generator().manual_seed(100 + stream)
    for _ in range(count):
        y = torch.randint(0, 4, (16,), generator=source)
        yield torch.randn(16, 1, 8, 8, generator=source) + y[:, None, None, None], y


def update(opt, loss, model=None):
    opt.zero_grad()
    loss.backward()
    if model is not None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()


def statistics_of_two_pictures_a_rank(rank, _):
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4)
    )
    ddp = DistributedDataParallel(model)
    opt = torch.optim.SGD(ddp.parameters(), 0.02)
    for x, y in pictures(rank):
        update(opt, F.cross_entropy(ddp(x[:2]), y[:2]))


def one_process(rank, onset, seed, store, ranks):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=4)
    )
    torch.manual_seed(seed)
    statistics_of_two_pictures_a_rank(rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    onset, seed = (*sys.argv[1:], "14", "0")[:2]
    ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    with tempfile.TemporaryDirectory() as folder:
        arguments = (int(onset), int(seed), f"{folder}/store", ranks)
        mp.start_processes(one_process, arguments, nprocs=ranks, start_method="fork")
