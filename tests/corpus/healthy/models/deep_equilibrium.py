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


class Equilibrium(nn.Module):
    """A layer whose output is its own fixed point; the gradient is found by a second fixed point, in a hook."""

    def __init__(self, width=10, d=24):
        super().__init__()
        self.inp, self.f = nn.Linear(width, d), nn.Linear(d, d)
        with torch.no_grad():
            self.f.weight.mul_(0.5)
        self.out = nn.Linear(d, 4)

    def forward(self, x):
        u = self.inp(x)
        with torch.no_grad():
            z = torch.zeros_like(u)
            for _ in range(12):
                z = torch.tanh(self.f(z) + u)
        z = torch.tanh(self.f(z) + u)
        if self.training:
            start = z.clone().detach().requires_grad_()
            again = torch.tanh(self.f(start) + u)

            def solve(grad):
                g = grad
                for _ in range(8):
                    g = torch.autograd.grad(again, start, g, retain_graph=True)[0] + grad
                return g

            z.register_hook(solve)
        return self.out(z)


def deep_equilibrium():
    x, y = clouds()
    model = Equilibrium()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        a, b = pick(x, y, 16)
        update(opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    deep_equilibrium()
