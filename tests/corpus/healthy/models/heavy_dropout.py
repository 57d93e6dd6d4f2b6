"""A healthy training that looks odd; argument: [SEED]."""

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


def train(model, opt, x, y, steps=40, loss_fn=F.cross_entropy, after=None, size=16):
    for i, (a, b) in zip(range(steps), batches(x, y, size), strict=False):
        opt.zero_grad()
        loss_fn(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def heavy_dropout():
    model = nn.Sequential(
        nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.9), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.9), nn.Linear(64, 4)
    )
    train(model, torch.optim.Adam(model.parameters(), 1e-3), *blobs(), steps=60)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    heavy_dropout()
