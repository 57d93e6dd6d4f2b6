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


def warm_restarts_and_a_tail_of_zero():
    """Cosine to exactly zero with two restarts."""
    model = mlp(act=nn.GELU)
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    schedule = optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 40)
    for _, (a, b) in zip(range(120), stream(*kinds()), strict=False):
        learn(opt, F.cross_entropy(model(a), b))
        schedule.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    warm_restarts_and_a_tail_of_zero()
