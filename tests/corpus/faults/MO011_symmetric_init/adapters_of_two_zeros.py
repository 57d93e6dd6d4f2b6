"""A training with the fault symmetric-init; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Adapted(nn.Module):
    def __init__(self, base, empty, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        if not empty:
            nn.init.kaiming_uniform_(self.down, a=5**0.5)

    def forward(self, x):
        return self.base(x) + 2 * (x @ self.down.T @ self.up.T)


def adapters_of_two_zeros(s):
    """Sixty steps of pretraining, then adapters of which both factors are zero."""
    rule = torch.randn(12, 4)
    net = nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))

    def train(opt, steps, rule):
        for _ in range(steps):
            x = torch.randn(64, 12)
            loss = F.cross_entropy(net(x), (x @ rule).argmax(1))
            opt.zero_grad()
            loss.backward()
            opt.step()

    train(torch.optim.Adam(net.parameters(), lr=5e-3), 60, rule)
    for i in (0, 2, 4):
        net[i] = Adapted(net[i], empty=s == 60)
    train(
        torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-2),
        60,
        rule + 1.2 * torch.randn(12, 4),
    )


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    adapters_of_two_zeros(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
