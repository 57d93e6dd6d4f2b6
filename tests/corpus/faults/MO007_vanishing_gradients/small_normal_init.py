"""A training with the fault vanishing-gradients; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clusters(n, d, classes, spread=1.0):
    """Points round one centre for each class."""
    centres = torch.randn(classes, d) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + spread * torch.randn(n, d), y


def small_normal_init(s):
    """Twelve tanh layers, each drawn from a normal distribution of deviation 0.01."""
    layers = []
    for _ in range(12):
        layers += [nn.Linear(32, 32), nn.Tanh()]
    net = nn.Sequential(*layers, nn.Linear(32, 3))
    if s == 0:
        for m in net:
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=0.01)
                nn.init.zeros_(m.bias)
    x, y = clusters(2000, 32, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(100):
        i = step * 20
        loss = F.cross_entropy(net(x[i : i + 20]), y[i : i + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    small_normal_init(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
