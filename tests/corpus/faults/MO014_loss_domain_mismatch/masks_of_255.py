"""A training with the fault loss-domain-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def tiles(n=320, size=10, classes=4):
    y = torch.randint(classes, (n,))
    pattern = (torch.rand(classes, 1, size, size) > 0.5).float()
    return pattern[y] + 0.3 * torch.randn(n, 1, size, size), y


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


def masks_of_255(s):
    """A mask from a file is 0 and 255, not 0 and 1."""
    x, _ = tiles()
    mask = (x > 0.5).float() * (255.0 if s == 0 else 1.0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1))
    run = Learner(net, lr=1e-3, loss=nn.BCEWithLogitsLoss())
    for _ in range(40):
        run.step(*draw(x, mask, 16))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    masks_of_255(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
