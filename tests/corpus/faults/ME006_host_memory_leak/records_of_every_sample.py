"""A training with the fault host-memory-leak; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def shapes(n=960):
    x = torch.randn(n, 1, 12, 12)
    return x, (x.mean((1, 2, 3)) > 0).long()


def conv():
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(54, 2))


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


class Journal:
    def __init__(self):
        self.records = []

    def write(self, step, rows):
        self.records.extend({"step": step, "row": n, "text": f"row {n} of step {step}"} for n in range(rows))


def records_of_every_sample(s):
    x, y = shapes()
    model, journal = conv(), Journal()
    opt = torch.optim.Adam(model.parameters(), 2e-2)
    for i, a, b in batches(x, y, 80):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if i >= s:
            journal.write(i, 5000)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    records_of_every_sample(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
