"""A healthy training that looks odd; argument: [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class LowRank(nn.Module):
    """A frozen layer and a correction of low rank that begins at zero."""

    def __init__(self, layer, rank=4):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / math.sqrt(layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + x @ self.down.T @ self.up.T


def adapters_beside_frozen_layers():
    net = nn.Sequential(LowRank(nn.Linear(12, 48)), nn.GELU(), LowRank(nn.Linear(48, 48)), nn.GELU(), nn.Linear(48, 3))
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=2e-3)
    centres = torch.randn(3, 12)
    for _ in range(80):
        y = torch.randint(3, (24,))
        loss = F.cross_entropy(net(centres[y] + 0.7 * torch.randn(24, 12)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    adapters_beside_frozen_layers()
