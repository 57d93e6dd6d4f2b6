"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def pick(x, y, n=32):
    i = torch.randint(len(y), (n,))
    return x[i], y[i]


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def grows_a_block():
    """After a while a block is put in the middle and given to the optimizer as a new group."""
    x, y = clouds()
    model = plain()
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(80):
        if step == 40:
            extra = nn.Linear(48, 48)
            nn.init.eye_(extra.weight)
            nn.init.zeros_(extra.bias)
            model.insert(4, extra)
            model.insert(5, nn.ReLU())
            opt.add_param_group({"params": extra.parameters(), "lr": 1e-3})
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    grows_a_block()
