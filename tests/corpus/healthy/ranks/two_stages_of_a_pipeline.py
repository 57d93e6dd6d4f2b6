"""A healthy training that looks odd."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

torch.set_num_threads(1)


def batches(stream, count=36):
    task = torch.randn(16, 4, generator=torch.Generator().manual_seed(9))
    source = torch.Generator().manual_seed(100 + stream)
    for _ in range(count):
        x = torch.randn(8, 16, generator=source)
        yield x, (x @ task).argmax(1)


def main(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(rank)
    _two_stages_of_a_pipeline(rank)
    dist.destroy_process_group()


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


def train():
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, (f"file://{folder}/store",), nprocs=2, start_method="fork")


def two_stages_of_a_pipeline():
    train()


if __name__ == "__main__":
    two_stages_of_a_pipeline()
