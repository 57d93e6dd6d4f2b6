"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Conv(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


def images(n=400, classes=4):
    y = torch.randint(classes, (n,))
    x = torch.randn(n, 1, 10, 10) * 0.5
    for i in range(n):
        x[i, 0, y[i] * 2 : y[i] * 2 + 3] += 1.5
    return x, y


def evaluates_between():
    x, y = images()
    model = Conv()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in range(5):
        model.train()
        for a, b in DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            for a, b in DataLoader(TensorDataset(x[240:], y[240:]), batch_size=80):
                F.cross_entropy(model(a * (1 + epoch)), b)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    evaluates_between()
