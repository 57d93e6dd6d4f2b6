"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def learns_by_heart():
    """Forty samples, full batches: the loss goes to zero and so do gradients and updates."""
    x, y = torch.randn(40, 20), torch.randint(2, (40,))
    net = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 2))
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(150):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    learns_by_heart()
