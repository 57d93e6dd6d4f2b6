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


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def sweep(lr, hidden, x, y):
    model = net(hidden=hidden)
    opt = torch.optim.SGD(model.parameters(), lr, momentum=0.9)
    for i in range(25):
        s = slice(i * 16, i * 16 + 16)
        last = step(opt, F.cross_entropy(model(x[s]), y[s]))
    return last


def sweeps_in_one_process():
    x, y = blobs(640)
    for lr in (0.001, 0.01, 0.1):
        for hidden in (16, 64):
            sweep(lr, hidden, x, y)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    sweeps_in_one_process()
