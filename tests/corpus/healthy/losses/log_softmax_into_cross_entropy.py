"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def log_softmax_into_cross_entropy():
    """Needless, but log_softmax of log_softmax is the same."""
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4), nn.LogSoftmax(dim=1))
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    centres = torch.randn(4, 10) * 2
    for _ in range(60):
        y = torch.randint(4, (32,))
        opt.zero_grad()
        F.cross_entropy(net(centres[y] + torch.randn(32, 10)), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    log_softmax_into_cross_entropy()
