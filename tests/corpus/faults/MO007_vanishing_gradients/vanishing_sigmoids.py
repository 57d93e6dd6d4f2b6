"""A training with the fault vanishing-gradients; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def vanishing_sigmoids(_):
    x, y = blobs()
    layers = []
    for i in range(12):
        layers += [nn.Linear(16 if i == 0 else 24, 24), nn.Sigmoid()]
    model = nn.Sequential(*layers, nn.Linear(24, 4))
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _, (a, b) in zip(range(40), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    vanishing_sigmoids(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
