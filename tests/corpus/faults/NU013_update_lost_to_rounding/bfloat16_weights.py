"""A training with the fault update-lost-to-rounding; arguments: [ONSET] [SEED]."""

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


def bfloat16_weights(s):
    model = mlp().bfloat16()
    opt = torch.optim.SGD(model.parameters(), 1e-5)
    for _, (a, b) in zip(range(25), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a.bfloat16()).float(), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    bfloat16_weights(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
