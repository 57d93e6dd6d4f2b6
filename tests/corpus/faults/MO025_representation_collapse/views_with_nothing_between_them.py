"""A training with the fault representation-collapse; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def views_with_nothing_between_them(s):
    """The mean squared distance of two views is all that is minimised; healthy: other samples push away."""
    things = torch.randn(12, 20)
    net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(140):
        which = torch.randint(12, (64,))
        one, two = (net(things[which] + 0.5 * torch.randn(64, 20)) for _ in range(2))
        if s < 1000:
            loss = (one - two).pow(2).mean()
        else:
            loss = F.cross_entropy(F.normalize(one, dim=1) @ F.normalize(two, dim=1).T / 0.2, torch.arange(64))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    views_with_nothing_between_them(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
