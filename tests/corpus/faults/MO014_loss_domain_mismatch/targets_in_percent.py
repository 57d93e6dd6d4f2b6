"""A training with the fault loss-domain-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def targets_in_percent(s):
    """BCELoss on targets in percent from some step on."""
    onset = s
    net = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    crit = nn.BCEWithLogitsLoss()
    for i in range(100):
        x = torch.randn(32, 9)
        y = (x[:, :1] > 0).float()
        if i >= onset:
            y = y * 100
        loss = crit(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    targets_in_percent(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
