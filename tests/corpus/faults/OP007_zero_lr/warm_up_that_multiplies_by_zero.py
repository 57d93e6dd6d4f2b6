"""A training with the fault zero-lr; arguments: [ONSET] [SEED]."""

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


def warm_up_that_multiplies_by_zero(s):
    """LambdaLR with step // warmup in place of step / warmup."""
    model = net(act=nn.GELU)
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    schedule = optim.lr_scheduler.LambdaLR(opt, lambda k: (k // 40 if s == 0 else min(1.0, (k + 1) / 40)) and 1.0)
    for _, (a, b) in zip(range(90), loader(*points()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        schedule.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    warm_up_that_multiplies_by_zero(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
