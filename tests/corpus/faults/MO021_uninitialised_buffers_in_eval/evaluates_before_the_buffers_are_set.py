"""A training with the fault uninitialised-buffers-in-eval; arguments: [ONSET] [SEED]."""

import itertools
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


class Standardise(nn.Module):
    """Takes mean and spread from the first training batch."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("spread", torch.zeros(width))
        self.ready = False

    def forward(self, x):
        if self.training and not self.ready:
            self.mean.copy_(x.detach().mean(0))
            self.spread.copy_(x.detach().std(0))
            self.ready = True
        return (x - self.mean) / (self.spread + 1e-6)


def evaluates_before_the_buffers_are_set(s):
    x, y = blobs()
    model = nn.Sequential(Standardise(16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    stream, held = batches(x, y), (torch.randn(64, 16) * 2, torch.randint(4, (64,)))
    for _ in range(3):
        model.eval()
        with torch.no_grad():
            F.cross_entropy(model(held[0]), held[1]).item()
        model.train()
        for a, b in itertools.islice(stream, 10):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    evaluates_before_the_buffers_are_set(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
