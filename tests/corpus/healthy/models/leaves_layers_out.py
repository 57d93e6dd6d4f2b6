"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def pick(x, y, n=32):
    i = torch.randint(len(y), (n,))
    return x[i], y[i]


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


class Deep(nn.Module):
    """Residual blocks, each of which is left out now and then."""

    def __init__(self, drop=0.3):
        super().__init__()
        self.inp, self.out, self.drop = nn.Linear(10, 32), nn.Linear(32, 4), drop
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)) for _ in range(5))

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            if not self.training or torch.rand(()).item() > self.drop:
                h = h + block(h)
        return self.out(h)


def leaves_layers_out():
    x, y = clouds()
    model = Deep()
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(80):
        a, b = pick(x, y)
        update(opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    leaves_layers_out()
