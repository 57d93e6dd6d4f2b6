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


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def bf16_autocast():
    x, y = images()
    model = Conv()
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    for _, (a, b) in zip(range(40), batches(x, y), strict=False):
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    bf16_autocast()
