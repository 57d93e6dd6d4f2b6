"""A training with the fault eval-without-no-grad; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def spirals(n, turns=1.2):
    """Three spirals in the plane, with cosines of random directions as further columns."""
    y = torch.randint(3, (n,))
    r = torch.rand(n) + 0.1
    t = r * turns * 6.28 + y * 2.09 + torch.randn(n) * 0.05
    xy = torch.stack([r * t.cos(), r * t.sin()], 1)
    return torch.cat([xy, torch.cos(xy @ torch.randn(2, 6) * 3)], 1), y


def validates_with_gradients(s):
    """Validation without no_grad."""
    x, y = spirals(1000)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
    opt = optim.Adam(net.parameters(), lr=3e-3)
    for step in range(50):
        net.train()
        i = step * 16
        opt.zero_grad()
        F.cross_entropy(net(x[i : i + 16]), y[i : i + 16]).backward()
        opt.step()
        if step % 10 == 9:
            net.eval()
            with torch.set_grad_enabled(s == 0):
                losses = [F.cross_entropy(net(x[j : j + 50]), y[j : j + 50]).item() for j in range(800, 1000, 50)]
            print("validation", sum(losses) / len(losses))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    validates_with_gradients(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
