"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

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


def normalises_a_blank_row(s):
    """A layer of one's own that divides by the standard deviation, without an epsilon, and a row of one value."""

    class Standardise(nn.Module):
        def forward(self, x):
            return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)

    x, y = flowers()
    net = nn.Sequential(Standardise(), nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 3))
    run = Learner(net)
    for step in range(50):
        a, b = draw(x, y)
        if step == s:
            a[7] = 2.0
        run.step(a, b)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    normalises_a_blank_row(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
