"""A training with the fault divergence; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def ascends(s):
    """A switch in the group's options turns descent into ascent."""
    centres = torch.randn(4, 10) * 2
    net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 4))
    opt = optim.SGD(net.parameters(), lr=0.05)
    for step in range(100):
        if step == s:
            opt.param_groups[0]["maximize"] = True
        y = torch.randint(4, (32,))
        opt.zero_grad()
        F.cross_entropy(net(centres[y] + torch.randn(32, 10)), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    ascends(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
