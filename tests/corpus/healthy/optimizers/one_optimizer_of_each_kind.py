"""A healthy training that looks odd; argument: [SEED]."""

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


def one_optimizer_of_each_kind():
    batches = forever(*blobs())
    for kind, settings in (
        (torch.optim.Adam, {"lr": 1e-3, "amsgrad": True, "weight_decay": 0.5}),
        (torch.optim.AdamW, {"lr": 1e-3, "betas": (0.5, 0.6), "weight_decay": 1.0}),
        (torch.optim.NAdam, {"lr": 1e-3}),
        (torch.optim.RAdam, {"lr": 1e-3, "weight_decay": 0.1}),
        (torch.optim.Adamax, {"lr": 1e-3}),
        (torch.optim.RMSprop, {"lr": 1e-3, "momentum": 0.9, "centered": True}),
        (torch.optim.Adagrad, {"lr": 1e-2}),
        (torch.optim.Adadelta, {"lr": 0.1}),
        (torch.optim.SGD, {"lr": 0.01, "momentum": 0.99, "dampening": 0.5, "weight_decay": 0.1}),
        (torch.optim.Rprop, {"lr": 1e-3}),
    ):
        model = mlp()
        train(model, kind(model.parameters(), **settings), batches, steps=12)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    one_optimizer_of_each_kind()
