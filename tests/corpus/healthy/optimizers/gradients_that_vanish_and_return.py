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


def gradients_that_vanish_and_return():
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 4))
    opt = torch.optim.AdamW(model.parameters(), 1e-3, betas=(0.9, 0.95))
    for i, (a, b) in zip(range(90), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        for p in model.parameters():
            p.grad *= 1e-3 if 20 <= i < 60 else 1.0
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    gradients_that_vanish_and_return()
