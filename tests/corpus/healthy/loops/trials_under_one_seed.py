"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def trials_under_one_seed():
    """Rates are compared: each trial has its own model and optimizer and sees the same batches in the same order."""
    x, turn = torch.randn(1200, 20), torch.randn(20, 4)
    y = (x @ turn).argmax(1)
    for rate in (1e-3, 3e-3, 1e-2):
        torch.manual_seed(7)
        net = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 4))
        opt = torch.optim.Adam(net.parameters(), lr=rate)
        for _ in range(80):
            i = torch.randint(0, 1200, (64,))
            loss = F.cross_entropy(net(x[i]), y[i])
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    trials_under_one_seed()
