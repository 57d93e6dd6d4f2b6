"""A training with the fault zero-grad-before-step; arguments: [ONSET] [SEED]."""

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


def zeroed_between_backward_and_step(s):
    """A refactoring moves zero_grad behind backward."""
    model = net(act=nn.SiLU)
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for step, (a, b) in zip(range(100), loader(*points()), strict=False):
        if step < s:
            opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        if step >= s:
            opt.zero_grad()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    zeroed_between_backward_and_step(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
