"""A training with the fault unshuffled-data; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def flowers(n=900, width=9, classes=3, spread=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + spread * torch.randn(n, width), y


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


def sorted_file_not_shuffled(s):
    """A file sorted by class, read in order."""
    x, y = flowers(960, classes=4)
    if s == 0:
        order = y.argsort()
        x, y = x[order], y[order]
    run = Learner(nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 4)))
    for _epoch in range(3):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=32):
            run.step(a, b)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sorted_file_not_shuffled(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
