"""A training with the fault python-exception; arguments: [ONSET] [SEED]."""

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


def changes_an_activation_in_place(s):
    """An activation that backward needs is overwritten."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.overwrite = nn.Linear(9, 24), nn.Linear(24, 3), False

        def forward(self, x):
            h = torch.sigmoid(self.a(x))
            out = self.b(h)
            if self.overwrite:
                h.mul_(0.5)
            return out

    x, y = flowers()
    run = Learner(Net())
    for step in range(60):
        run.model.overwrite = step >= s
        run.step(*draw(x, y))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    changes_an_activation_in_place(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
