"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


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


def huge_initial_loss():
    x = torch.randn(1600, 6)
    y = 1000 + 200 * x.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 1))
    train(model, torch.optim.Adam(model.parameters(), 3e-2), x, y, loss_fn=F.mse_loss, steps=100)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    huge_initial_loss()
