"""A training with the fault double-softmax; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4, spread=1.0):
    centres = torch.randn(classes, width) * 3
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width) * spread, y


def mlp(width=12, hidden=24, classes=4):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def softmax_module_twice(s):
    model = nn.Sequential(*mlp(), nn.Softmax(-1))
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _, (a, b) in zip(range(40), forever(*blobs()), strict=False):
        opt.zero_grad()
        nn.CrossEntropyLoss()(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    softmax_module_twice(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
