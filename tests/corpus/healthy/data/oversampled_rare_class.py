"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.set_num_threads(1)


def kinds(n=720, classes=4, width=16, noise=0.8):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + noise * torch.randn(n, width), y


def mlp(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def oversampled_rare_class():
    """A rare class is drawn with weights, so its few rows come again and again."""
    x, y = kinds(900, 2)
    keep = (y == 0) | (torch.rand(900) < 0.06)
    x, y = x[keep], y[keep]
    weight = 1.0 / torch.bincount(y).float()[y]
    model = mlp(out=2)
    opt = optim.Adam(model.parameters(), lr=1e-3)
    sampler = WeightedRandomSampler(weight, 40 * 32)
    for _ in range(3):
        for a, b in DataLoader(TensorDataset(x, y), 32, sampler=sampler):
            learn(opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    oversampled_rare_class()
