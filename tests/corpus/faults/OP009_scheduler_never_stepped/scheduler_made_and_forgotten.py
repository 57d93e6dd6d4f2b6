"""A training with the fault scheduler-never-stepped; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def points(n=800, classes=4, width=14):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.2 + 0.8 * torch.randn(n, width), y


def loader(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def net(width=14, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def scheduler_made_and_forgotten(s):
    """OneCycleLR is made, but nobody steps it."""
    model = net()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = optim.lr_scheduler.OneCycleLR(opt, max_lr=0.2, total_steps=91)
    for _, (a, b) in zip(range(90), loader(*points()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if s != 0:
            schedule.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    scheduler_made_and_forgotten(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
