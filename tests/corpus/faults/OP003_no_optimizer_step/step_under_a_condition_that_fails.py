"""A training with the fault no-optimizer-step; arguments: [ONSET] [SEED]."""

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


def step_under_a_condition_that_fails(s):
    """optimizer.step() stands in a branch that is no longer taken."""
    model = net()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step, (a, b) in zip(range(90), loader(*points()), strict=False):
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        if step < s:
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    step_under_a_condition_that_fails(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
