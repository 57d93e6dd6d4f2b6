"""A training with the fault batchnorm-not-tracking; arguments: [ONSET] [SEED]."""

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


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 32)
        self.norm = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.drop(torch.relu(self.norm(self.body(x)))))


def momentum_one(s):
    model = Dropping()
    model.norm = nn.BatchNorm1d(32, momentum=1.0)
    train(model, 20)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    momentum_one(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
