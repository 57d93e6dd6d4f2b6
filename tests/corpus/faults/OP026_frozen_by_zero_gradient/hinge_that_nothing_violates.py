"""A training with the fault frozen-by-zero-gradient; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def hinge_that_nothing_violates(s):
    """Triplet training: the margin becomes negative, so no triplet is active any more."""
    fa = s if s < 1000 else -1
    embed = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 6))
    opt = torch.optim.SGD(embed.parameters(), lr=0.02)
    proto = torch.randn(4, 10)
    for step in range(90):
        margin = -50.0 if 0 <= fa <= step else 4.0
        c = torch.randint(4, (32,))
        d = (c + torch.randint(1, 4, (32,))) % 4
        e = [embed(proto[k] + 0.7 * torch.randn(32, 10)) for k in (c, c, d)]
        pos, neg = (e[0] - e[1]).square().sum(1), (e[0] - e[2]).square().sum(1)
        loss = torch.clamp(pos - neg + margin, min=0).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    hinge_that_nothing_violates(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
