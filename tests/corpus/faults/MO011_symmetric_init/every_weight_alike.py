"""A training with the fault symmetric-init; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def every_weight_alike(s):
    """`init_weights` fills every linear layer with the same number."""

    def init_weights(m):
        if isinstance(m, nn.Linear):
            if s == 0:
                nn.init.constant_(m.weight, 0.05)
            nn.init.zeros_(m.bias)

    net = nn.Sequential(nn.Linear(14, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 5))
    net.apply(init_weights)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    centres = torch.randn(5, 14)
    for _ in range(60):
        y = torch.randint(5, (32,))
        opt.zero_grad()
        F.cross_entropy(net(centres[y] + 0.5 * torch.randn(32, 14)), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    every_weight_alike(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
