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


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def train(model, opt, batches, steps=30, after=None):
    for i, (a, b) in zip(range(steps), batches, strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def averages_late():
    model = mlp()
    swa = torch.optim.swa_utils.AveragedModel(model)

    def after(i):
        if i >= 40 and i % 5 == 0:
            swa.update_parameters(model)

    train(model, torch.optim.SGD(model.parameters(), 0.05), forever(*blobs()), steps=60, after=after)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    averages_late()
