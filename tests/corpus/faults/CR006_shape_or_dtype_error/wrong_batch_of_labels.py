"""A training with the fault shape-or-dtype-error; arguments: [ONSET] [SEED]."""

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


def wrong_batch_of_labels(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters())
    for i, (a, b) in zip(range(20), batches(x, y), strict=False):
        out = model(a)
        loss = F.cross_entropy(out, b[:-1] if i == s else b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    wrong_batch_of_labels(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
