"""A healthy training that looks odd."""

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


def main(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(rank)
    _replicas_accumulate_and_the_first_logs(rank)
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


def train():
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, (f"file://{folder}/store",), nprocs=2, start_method="fork")


def replicas_that_accumulate_while_the_first_logs():
    train()


if __name__ == "__main__":
    replicas_that_accumulate_while_the_first_logs()
