"""A training with the fault nonfinite-input; arguments: [ONSET] [SEED]."""

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


def mlp(width=16, hidden=32, classes=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, classes))


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def nan_in_batch(s):
    x, y = blobs()
    model, steps = mlp(), 30
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(steps), batches(x, y), strict=False):
        if i == s:
            a = (a - a.mean(0)) / (a.std(0) * 0 + 0)  # a constant column divided by its deviation
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    nan_in_batch(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
