"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def kinds(n=720, classes=4, width=16, noise=0.8):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + noise * torch.randn(n, width), y


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def mlp(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def cyclic_rate():
    """A triangular schedule, whose loss goes up and down with it."""
    model = mlp()
    opt = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    schedule = optim.lr_scheduler.CyclicLR(opt, 0.005, 0.3, step_size_up=15)
    for _, (a, b) in zip(range(150), stream(*kinds()), strict=False):
        learn(opt, F.cross_entropy(model(a), b))
        schedule.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    cyclic_rate()
