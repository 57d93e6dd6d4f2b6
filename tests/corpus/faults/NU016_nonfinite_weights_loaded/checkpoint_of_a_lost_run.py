"""A training with the fault nonfinite-weights-loaded; arguments: [ONSET] [SEED]."""

import math
import sys
import tempfile
from pathlib import Path

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


def checkpoint_of_a_lost_run(s):
    """Training goes on from a checkpoint in which one tensor is not finite."""
    x, y = flowers()
    net = nn.Sequential(nn.Linear(9, 32), nn.SiLU(), nn.Linear(32, 3))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.pt"
        state = net.state_dict()
        if s == 0:
            state["2.bias"] = torch.full_like(state["2.bias"], math.nan)
        torch.save(state, file)
        net.load_state_dict(torch.load(file))
    run = Learner(net)
    for _ in range(30):
        run.step(*draw(x, y))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    checkpoint_of_a_lost_run(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
