"""Healthy trainings of two ranks that look odd: `python odd_ranks.py NAME`."""

import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from ranks_faults import Net, batches, convolutional, pictures, update
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


def main(rank, train):
    dist.init_process_group("gloo", init_method=train[1], rank=rank, world_size=2)
    torch.manual_seed(rank)
    _TRAININGS[train[0]](rank)
    dist.destroy_process_group()


def _replicas_accumulate_and_the_first_logs(rank):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    stream = batches(rank, 60)
    for i in range(30):
        (x, y), (v, w) = next(stream), next(stream)
        opt.zero_grad()
        with ddp.no_sync():
            (F.cross_entropy(ddp(x), y) / 2).backward()
        (loss := F.cross_entropy(ddp(v), w) / 2).backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        opt.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0 and i % 10 == 9:
            with torch.no_grad():
                ddp.module(x)
            time.sleep(0.02)
        dist.barrier()


def _weights_averaged_every_five_steps(rank):
    torch.manual_seed(0)
    model = convolutional()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i, (x, y) in enumerate(pictures(rank)):
        update(opt, F.cross_entropy(model(x), y))
        if i % 5 == 4:
            for p in model.parameters():
                dist.all_reduce(p.data)
                p.data /= 2


def _one_rank_has_more_data(rank):
    ddp = DistributedDataParallel(Net())
    opt = torch.optim.AdamW(ddp.parameters(), 1e-3)
    with Join([ddp]):
        for x, y in batches(rank, 30 + 4 * rank):
            update(opt, F.cross_entropy(ddp(x), y))


def _two_stages_of_a_pipeline(rank):
    stage = torch.nn.Linear(16, 24) if rank == 0 else torch.nn.Linear(24, 4)
    opt = torch.optim.SGD(stage.parameters(), 0.05)
    for x, y in batches(0):
        opt.zero_grad()
        if rank == 0:
            h = stage(x).relu()
            dist.send(h.detach(), 1)
            gradient = torch.empty_like(h)
            dist.recv(gradient, 1)
            h.backward(gradient)
        else:
            h = torch.empty(8, 24)
            dist.recv(h, 0)
            h.requires_grad_()
            F.cross_entropy(stage(h), y).backward()
            dist.send(h.grad, 0)
        opt.step()


_TRAININGS = {
    "replicas_accumulate": _replicas_accumulate_and_the_first_logs,
    "averaged_weights": _weights_averaged_every_five_steps,
    "uneven_data": _one_rank_has_more_data,
    "pipeline": _two_stages_of_a_pipeline,
}


def train(name):
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, ((name, f"file://{folder}/store"),), nprocs=2, start_method="fork")


def replicas_that_accumulate_while_the_first_logs():
    train("replicas_accumulate")


def weights_averaged_every_five_steps():
    train("averaged_weights")


def one_rank_has_more_data():
    train("uneven_data")


def two_stages_of_a_pipeline():
    train("pipeline")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
