"""A training with the fault lr-too-low; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def flowers(n=900, width=9, classes=3, spread=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + spread * torch.randn(n, width), y


def draw(x, y, n=24):
    i = torch.randint(len(y), (n,))
    return x[i], y[i]


class Learner:
    """Model, optimizer and loss in one object, as in many course notes."""

    def __init__(self, model, lr=2e-3, kind=optim.Adam, loss=F.cross_entropy, **settings):
        self.model, self.loss = model, loss
        self.opt = kind(model.parameters(), lr=lr, **settings)

    def step(self, x, y):
        self.opt.zero_grad()
        loss = self.loss(self.model(x), y)
        loss.backward()
        self.opt.step()
        return loss.item()


def warms_up_for_ever(s):
    """total_iters counts samples, so the rate stays at a millionth of what it should be."""
    x, y = flowers()
    run = Learner(nn.Sequential(nn.Linear(9, 48), nn.ReLU(), nn.Linear(48, 3)), kind=optim.SGD, lr=0.05)
    warm = optim.lr_scheduler.LinearLR(run.opt, start_factor=1e-6, total_iters=50_000_000 if s == 0 else 10)
    for _ in range(120):
        run.step(*draw(x, y))
        warm.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    warms_up_for_ever(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
