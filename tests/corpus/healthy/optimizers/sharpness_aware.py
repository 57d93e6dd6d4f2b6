"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4, noise=0.8):
    y = torch.randint(classes, (n,))
    centres = torch.randn(classes, width)
    return centres[y] + noise * torch.randn(n, width), y


def net(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def sharpness_aware():
    x, y = blobs(640)
    model = net()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for i in range(60):
        s = slice(i * 10, i * 10 + 20)
        opt.zero_grad()
        F.cross_entropy(model(x[s]), y[s]).backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        moved = [0.05 * p.grad / (norm + 1e-12) for p in model.parameters()]
        with torch.no_grad():
            for p, e in zip(model.parameters(), moved, strict=True):
                p.add_(e)
        opt.zero_grad()
        F.cross_entropy(model(x[s]), y[s]).backward()
        with torch.no_grad():
            for p, e in zip(model.parameters(), moved, strict=True):
                p.sub_(e)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    sharpness_aware()
