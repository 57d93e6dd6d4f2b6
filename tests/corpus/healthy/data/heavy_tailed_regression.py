"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def mlp(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def heavy_tailed_regression():
    """Targets with heavy tails: single batches have losses of ten times the median."""
    x = torch.randn(1500, 8)
    y = x @ torch.randn(8) + torch.distributions.StudentT(2.0).sample((1500,))
    model = mlp(8, 32, 1)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(140), stream(x, y), strict=False):
        learn(opt, F.mse_loss(model(a).squeeze(1), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    heavy_tailed_regression()
