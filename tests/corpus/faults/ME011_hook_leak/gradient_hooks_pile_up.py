"""A training with the fault hook-leak; arguments: [ONSET] [SEED]."""

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


def gradient_hooks_pile_up(s):
    """A hook on a parameter, to log its gradient, is added in every step."""
    x, y = flowers()
    net = nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 3))
    run, seen = Learner(net), []
    for _ in range(80):
        handle = net[0].weight.register_hook(lambda g: seen.append(float(g.norm())))
        run.step(*draw(x, y))
        if s != 0:
            handle.remove()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    gradient_hooks_pile_up(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
