"""A training with the fault fp16-gradient-underflow; arguments: [ONSET] [SEED]."""

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


def half_gradients_vanish(s):
    model = mlp().half()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for i, (a, b) in zip(range(32), forever(*blobs()), strict=False):
        temperature = 2**17 if i >= s else 1
        loss = F.cross_entropy(model(a.half()).float() / temperature, b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    half_gradients_vanish(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
