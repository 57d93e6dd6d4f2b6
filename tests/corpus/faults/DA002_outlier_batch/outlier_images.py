"""A training with the fault outlier-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def images(n=400, classes=4):
    y = torch.randint(classes, (n,))
    x = torch.randn(n, 1, 10, 10) * 0.5
    for i in range(n):
        x[i, 0, y[i] * 2 : y[i] * 2 + 3] += 1.5
    return x, y


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def outlier_images(s):
    x, y = images(600)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for i, (a, b) in zip(range(36), batches(x, y), strict=False):
        if i == s:
            a = a * -2550.0  # bytes read as signed, and never divided by 255
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    outlier_images(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
