"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Adapted(nn.Module):
    """A frozen linear layer and a product of two thin matrices beside it, the second of which begins at zero."""

    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(4, base.in_features) / 6)
        self.b = nn.Parameter(torch.zeros(base.out_features, 4))

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T

    @torch.no_grad()
    def merge(self):
        self.base.weight += self.b @ self.a
        self.a.copy_(torch.randn_like(self.a) / 6)
        self.b.zero_()


def adapters_merged_and_begun_anew():
    """Every 60 steps an adapter goes into the weights, begins anew, and Adam forgets what it knew of it."""
    net = nn.Sequential(Adapted(nn.Linear(32, 64)), nn.SiLU(), Adapted(nn.Linear(64, 5)))
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=3e-3)
    centres = torch.randn(5, 32)
    for i in range(200):
        if i % 60 == 59:
            net[2].merge()
            for p in (net[2].a, net[2].b):
                for held in opt.state[p].values():
                    held.zero_()
        y = torch.randint(5, (64,))
        loss = F.cross_entropy(net(centres[y] + 1.5 * torch.randn(64, 32)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    adapters_merged_and_begun_anew()
