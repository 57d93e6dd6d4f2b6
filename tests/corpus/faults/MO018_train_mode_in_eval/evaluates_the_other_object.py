"""A training with the fault train-mode-in-eval; arguments: [ONSET] [SEED]."""

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


def evaluates_the_other_object(s):
    """eval() is called on a copy that nobody uses; dropout stays on in the validation."""
    x, y = flowers()
    net = nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 3))
    wrapper = nn.ModuleDict({"other": nn.Linear(2, 2)})
    run = Learner(net)
    for step in range(60):
        net.train()
        run.step(*draw(x, y))
        if step % 15 == 14:
            (wrapper if s == 0 else net).eval()
            with torch.no_grad():
                for a, b in zip(x[:300].split(60), y[:300].split(60), strict=True):
                    (net(a).argmax(1) == b).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    evaluates_the_other_object(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
