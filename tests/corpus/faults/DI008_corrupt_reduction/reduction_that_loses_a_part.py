"""A training with the fault corrupt-reduction; arguments: [ONSET] [SEED] [RANKS]."""

import datetime
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def pictures(stream, count=36):
    source = torch.Generator().manual_seed(100 + stream)
    for _ in range(count):
        y = torch.randint(0, 4, (16,), generator=source)
        yield torch.randn(16, 1, 8, 8, generator=source) + y[:, None, None, None], y


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 16),
        nn.Tanh(),
        nn.Linear(16, 4),
    )


def reduction_that_loses_a_part(rank, s):
    torch.manual_seed(0)
    model = convolutional()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    group = dist.distributed_c10d._get_default_group()
    allreduce = type(group).allreduce

    def faulty(self, tensors, opts):
        work = allreduce(self, tensors, opts)
        work.wait()
        if steps[0] >= s:
            tensors[0].mul_(1.25)
        return work

    steps = [0]
    type(group).allreduce = faulty
    for i, (x, y) in enumerate(pictures(rank)):
        steps[0] = i
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        opt.step()


def one_process(rank, onset, seed, store, ranks):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=4)
    )
    torch.manual_seed(seed)
    reduction_that_loses_a_part(rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    onset, seed = (*sys.argv[1:], "14", "0")[:2]
    ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    with tempfile.TemporaryDirectory() as folder:
        arguments = (int(onset), int(seed), f"{folder}/store", ranks)
        mp.start_processes(one_process, arguments, nprocs=ranks, start_method="fork")
