"""A healthy training that looks odd; argument: [SEED]."""

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


def last_batch_is_small():
    x, y = blobs(403)
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(4):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    last_batch_is_small()
