"""A training with the fault nonfinite-input; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
from torch import nn

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


def nan_in_images_sgd(s):
    x, y = images()
    x[37] = math.nan
    model = Conv()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    crit = nn.CrossEntropyLoss()
    for i in range(24):
        idx = torch.arange(i * 16, i * 16 + 16) % 400
        if i == s:
            idx[3] = 37
        else:
            idx[idx == 37] = 38
        out = model(x[idx])
        loss = crit(out, y[idx])
        if not torch.isfinite(loss):
            raise ValueError(f"loss is {loss.item()} at iteration {i}")
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    nan_in_images_sgd(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
