"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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


def folds():
    x, y = blobs(400)
    for part in torch.arange(400).split(80):
        rest = torch.ones(400, dtype=torch.bool)
        rest[part] = False
        model = net()
        opt = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(3):
            model.train()
            for a, b in DataLoader(TensorDataset(x[rest], y[rest]), batch_size=32, shuffle=True):
                step(opt, F.cross_entropy(model(a), b))
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(x[part]), y[part]).item()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    folds()
