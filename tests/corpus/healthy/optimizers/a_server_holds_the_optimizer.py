"""A healthy training that looks odd; argument: [SEED]."""

import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

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


def _server_and_worker(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = Net()
    opt = torch.optim.AdamW(model.parameters(), 1e-3) if rank == 0 else None
    for x, y in batches(rank):
        for p in model.parameters():
            dist.broadcast(p.data, 0)
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for p in model.parameters():
            dist.reduce(p.grad, 0)
        if opt is not None:
            for p in model.parameters():
                p.grad /= 2
            opt.step()
    dist.destroy_process_group()


def a_server_holds_the_optimizer():
    """The first rank updates the weights, and the other gets them at the beginning of its next step."""
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(_server_and_worker, (f"file://{folder}/store",), nprocs=2, start_method="fork")


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    a_server_holds_the_optimizer()
