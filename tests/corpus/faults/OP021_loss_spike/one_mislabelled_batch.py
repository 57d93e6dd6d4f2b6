"""A training with the fault loss-spike; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def one_mislabelled_batch(s):
    """Labels of one batch come from another file."""
    centres = torch.randn(6, 16) * 2
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 6))
    opt = optim.Adam(net.parameters(), lr=2e-3)
    for step in range(130):
        y = torch.randint(6, (32,))
        x = centres[y] + torch.randn(32, 16)
        if step == s:
            y = (y + 1) % 6
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    one_mislabelled_batch(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
