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


def rates_that_fall_with_depth():
    """Fine-tuning: the lower the layer the smaller its rate, warm-up, then linearly to exactly zero."""
    x, y = clouds()
    model = plain(hidden=64, act=nn.GELU)
    layers = [m for m in model if isinstance(m, nn.Linear)]
    groups = [{"params": m.parameters(), "lr": 1e-3 * 0.05 ** (len(layers) - 1 - i)} for i, m in enumerate(layers)]
    opt = optim.AdamW(groups, weight_decay=0.01)
    total, warm = 90, 9
    schedule = optim.lr_scheduler.LambdaLR(
        opt, lambda i: i / warm if i < warm else max(0.0, (total - i) / (total - warm))
    )
    for _ in range(total):
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))
        schedule.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    rates_that_fall_with_depth()
