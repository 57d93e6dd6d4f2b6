"""A training with the fault graph-retained-across-steps; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=960, width=14, classes=3):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.5 * torch.randn(n, width), y


def mlp(width=14, classes=3):
    return nn.Sequential(nn.Linear(width, 40), nn.GELU(), nn.Linear(40, classes))


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total = self.total + value
        self.count += 1


def a_meter_sums_losses(s):
    x, y = blobs()
    model, meter = mlp(), Meter()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i, a, b in batches(x, y, 44):
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter.update(loss if i >= s else loss.item())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_meter_sums_losses(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
