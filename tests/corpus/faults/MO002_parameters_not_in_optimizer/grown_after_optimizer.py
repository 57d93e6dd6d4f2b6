"""A training with the fault parameters-not-in-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(10, 24)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(24, 24), nn.SiLU())])
        self.head = nn.Linear(24, 3)

    def grow(self):
        self.blocks.append(nn.Sequential(nn.Linear(24, 24), nn.SiLU()))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def grown_after_optimizer(s):
    """A network that grows by a block while training; the optimizer is not told."""
    centres = torch.randn(3, 10) * 2
    net = Growing()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(80):
        if step == s:
            net.grow()
        y = torch.randint(3, (32,))
        loss = F.cross_entropy(net(centres[y] + torch.randn(32, 10)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    grown_after_optimizer(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
