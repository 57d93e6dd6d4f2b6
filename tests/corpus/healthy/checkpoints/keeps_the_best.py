"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def train(model, opt, batches, steps=30, after=None):
    for i, (a, b) in zip(range(steps), batches, strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def keeps_the_best():
    model = mlp()
    best = copy.deepcopy(model)
    held_out, labels = blobs(64)
    lowest = [9e9]

    def after(i):
        if i % 4 == 3:
            with torch.no_grad():
                loss = float(F.cross_entropy(model(held_out), labels))
            if loss < lowest[0]:
                lowest[0] = loss
                best.load_state_dict(model.state_dict())

    train(model, torch.optim.Adam(model.parameters(), 1e-2), forever(*blobs()), steps=80, after=after)
    model.load_state_dict(best.state_dict())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    keeps_the_best()
