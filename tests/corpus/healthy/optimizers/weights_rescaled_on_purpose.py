"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def train(model, opt, batches, steps=30, after=None):
    for i, (a, b) in zip(range(steps), batches, strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def weights_rescaled_on_purpose():
    model = nn.Sequential(nn.Linear(12, 32, bias=False), nn.LayerNorm(32), nn.Linear(32, 4))
    opt = torch.optim.SGD(model.parameters(), 0.05)

    def after(i):
        if i % 10 == 9:
            with torch.no_grad():
                model[0].weight *= 3.0

    train(model, opt, forever(*blobs()), steps=40, after=after)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    weights_rescaled_on_purpose()
