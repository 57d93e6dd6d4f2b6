"""A training with the fault exploding-activations; arguments: [ONSET] [SEED]."""

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


def train(model, steps, data=None, lr=1e-3, each=lambda i: None):
    opt = torch.optim.Adam(model.parameters(), lr)
    for i, (a, b) in zip(range(steps), data or forever(*blobs()), strict=False):
        each(i)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def ten_times_a_layer(s):
    layers = []
    for i in range(6):
        layer = nn.Linear(12 if i == 0 else 32, 32)
        nn.init.normal_(layer.weight, std=1.2)
        layers += [layer, nn.ReLU()]
    train(nn.Sequential(*layers, nn.Linear(32, 4)), 20)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    ten_times_a_layer(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
