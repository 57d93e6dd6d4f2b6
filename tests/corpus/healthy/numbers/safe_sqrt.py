"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(width=16, hidden=32, classes=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, classes))


def safe_sqrt():
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(40):
        a, b = x[i * 16 : i * 16 + 16], y[i * 16 : i * 16 + 16]
        out = model(a)
        distance = torch.cdist(out, out)
        loss = F.cross_entropy(out, b) - 0.001 * distance.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    safe_sqrt()
