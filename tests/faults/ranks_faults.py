"""Trainings of two ranks (or more) on gloo, each with a fault: `python ranks_faults.py NAME ONSET SEED [RANKS]`."""

import datetime
import os
import signal
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


def update(opt, loss, model=None):
    opt.zero_grad()
    loss.backward()
    if model is not None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()


def raw_model_from_some_step_on(rank, s):
    model = Net()
    ddp = DistributedDataParallel(model)
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(rank)):
        update(opt, F.cross_entropy((ddp if i < s else model)(x), y), ddp)


def never_leaves_no_sync(rank, s):
    ddp = DistributedDataParallel(convolutional())
    opt = torch.optim.SGD(ddp.parameters(), 0.05, momentum=0.9)
    for i, (x, y) in enumerate(pictures(rank)):
        opt.zero_grad()
        with ddp.no_sync():
            (F.cross_entropy(ddp(x[:8]), y[:8]) / 2).backward()
        if i < s:
            (F.cross_entropy(ddp(x[8:]), y[8:]) / 2).backward()
        else:
            with ddp.no_sync():
                (F.cross_entropy(ddp(x[8:]), y[8:]) / 2).backward()
        opt.step()


def head_replaced_after_wrapping(rank, s):
    model = Net()
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    opt = torch.optim.Adam(ddp.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(rank)):
        if i == s:
            weight = model.head.weight.detach().clone()
            model.head = nn.Linear(32, 4)
            model.head.weight.data.copy_(weight)
            model.head.bias.data.zero_()
            opt = torch.optim.Adam(ddp.parameters(), 1e-3)
        update(opt, F.cross_entropy(ddp(x), y))


def clips_on_the_first_rank(rank, s):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.SGD(ddp.parameters(), 0.1)
    for i, (x, y) in enumerate(batches(rank)):
        opt.zero_grad()
        F.cross_entropy(ddp(x), y).backward()
        if i >= s and rank == 0:
            nn.utils.clip_grad_norm_(ddp.parameters(), 0.05)
        opt.step()


def rate_lowered_on_the_first_rank(rank, s):
    ddp = DistributedDataParallel(convolutional())
    opt = torch.optim.AdamW(ddp.parameters(), 3e-3)
    for i, (x, y) in enumerate(pictures(rank)):
        if i == s and rank == 0:
            opt.param_groups[0]["lr"] /= 2
        update(opt, F.cross_entropy(ddp(x), y), ddp)


def one_rank_touches_a_weight(rank, s):
    model = Net()
    ddp = DistributedDataParallel(model)
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(rank)):
        update(opt, F.cross_entropy(ddp(x), y), ddp)
        if i == s and rank == 1:
            with torch.no_grad():
                model.body[2].weight[0, 0] += 0.01


def averages_by_hand_and_forgets(rank, s):
    torch.manual_seed(0)
    model = convolutional()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i, (x, y) in enumerate(pictures(rank)):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for p in model.parameters():
            if i < s:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()
        opt.step()


def one_rank_logs_a_mean_alone(rank, s):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(rank)):
        loss = F.cross_entropy(ddp(x), y)
        update(opt, loss, ddp)
        if i == s and rank == 0:
            dist.all_reduce(loss.detach().clone())


def gathers_what_others_broadcast(rank, s):
    ddp = DistributedDataParallel(convolutional())
    opt = torch.optim.SGD(ddp.parameters(), 0.05)
    for i, (x, y) in enumerate(pictures(rank)):
        loss = F.cross_entropy(ddp(x), y)
        update(opt, loss, ddp)
        if i == s:
            if rank == 0:
                dist.all_reduce(torch.ones(4))
            else:
                dist.broadcast(torch.ones(4), 1)


def killed_rank(rank, s):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(rank)):
        if i == s and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        update(opt, F.cross_entropy(ddp(x), y))


def same_data_everywhere(rank, _):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    for x, y in batches(0):
        update(opt, F.cross_entropy(ddp(x), y), ddp)


def branch_left_out(rank, s):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(rank)):
        update(opt, F.cross_entropy(ddp(x, aside=i < s), y))


def late_rank(rank, s):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    for i, (x, y) in enumerate(batches(rank, 60)):
        time.sleep(0.02)
        if i >= s and rank == 1:
            time.sleep(0.12)
        update(opt, F.cross_entropy(ddp(x), y))


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


def statistics_of_two_pictures_a_rank(rank, _):
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4)
    )
    ddp = DistributedDataParallel(model)
    opt = torch.optim.SGD(ddp.parameters(), 0.02)
    for x, y in pictures(rank):
        update(opt, F.cross_entropy(ddp(x[:2]), y[:2]))


def one_process(rank, name, onset, seed, store, ranks):
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=4)
    )
    torch.manual_seed(seed)
    globals()[name](rank, onset)
    dist.destroy_process_group()


if __name__ == "__main__":
    name, onset, seed = (*sys.argv[1:], "14", "0")[:3]
    ranks = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    with tempfile.TemporaryDirectory() as folder:
        arguments = (name, int(onset), int(seed), f"{folder}/store", ranks)
        mp.start_processes(one_process, arguments, nprocs=ranks, start_method="fork")
