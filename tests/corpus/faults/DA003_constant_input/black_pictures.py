"""A training with the fault constant-input; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self, classes=4, softmax=False):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.head = nn.Linear(8, classes)
        self.softmax = softmax

    def forward(self, x):
        out = self.head(torch.relu(self.conv(x)).mean((2, 3)))
        return out.softmax(-1) if self.softmax else out


def pictures(n=400, classes=4):
    y = torch.randint(classes, (n,))
    x = torch.randn(n, 1, 8, 8) * 0.3
    for i in range(n):
        x[i, 0, y[i] * 2] += 1.5
    return x, y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def black_pictures(s):
    model = Net()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for i, (a, b) in zip(range(s + 15), forever(*pictures()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(torch.zeros_like(a) if i >= s else a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    black_pictures(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
