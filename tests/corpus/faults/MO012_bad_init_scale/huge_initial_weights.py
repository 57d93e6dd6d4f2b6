"""A training with the fault bad-init-scale; arguments: [ONSET] [SEED]."""

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


def huge_initial_weights(s):
    """Weights drawn from a standard normal distribution with a deviation of one."""
    model = net(act=nn.Tanh)
    if s == 0:
        for p in model.parameters():
            nn.init.normal_(p, 0, 1)
    opt = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for _, (a, b) in zip(range(80), loader(*points()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    huge_initial_weights(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
