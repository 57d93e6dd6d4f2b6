"""A training with the fault shuffled-labels; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def regression_with_the_targets_of_others(s):
    """From s on the targets of a batch are drawn apart from its inputs."""
    net = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    turn = torch.randn(12) / 4
    for i in range(220):
        x = torch.randn(64, 12)
        y = (1.4 * torch.sin(x @ turn) + 0.1 * torch.randn(64))[:, None]
        if i >= s:
            y = y[torch.randperm(64)]
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    regression_with_the_targets_of_others(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
