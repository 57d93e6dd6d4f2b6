"""A training with the fault optimizer-state-drift; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def first_moments_scaled(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        if i == s:
            for state in opt.state.values():
                state["exp_avg"] *= 100
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    first_moments_scaled(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
