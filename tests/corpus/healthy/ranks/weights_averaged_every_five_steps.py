"""A healthy training that looks odd."""

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


def update(opt, loss, model=None):
    opt.zero_grad()
    loss.backward()
    if model is not None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()


def main(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(rank)
    _weights_averaged_every_five_steps(rank)
    dist.destroy_process_group()


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


def train():
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, (f"file://{folder}/store",), nprocs=2, start_method="fork")


def weights_averaged_every_five_steps():
    train()


if __name__ == "__main__":
    weights_averaged_every_five_steps()
