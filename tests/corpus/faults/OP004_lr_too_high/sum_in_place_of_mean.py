"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


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


def sum_in_place_of_mean(s):
    """reduction="sum" with the rate that suited the mean."""
    x = torch.randn(2000, 8)
    y = (x @ torch.randn(8, 1)) + 0.1 * torch.randn(2000, 1)
    loss = nn.MSELoss(reduction="sum" if s == 0 else "mean")
    run = Learner(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)), 0.05, optim.SGD, loss, momentum=0.9)
    for _ in range(60):
        run.step(*draw(x, y, 64))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sum_in_place_of_mean(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
