"""A training with the fault plateau; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def learns_nothing_after_a_while(s):
    """Labels become noise at some step (a renamed column): the loss stays where it is for good."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    truth_w = torch.randn(20, 5)
    for step in range(220):
        x = torch.randn(64, 20)
        y = (x @ truth_w).argmax(1)
        if 0 <= fa <= step:
            y = y[torch.randperm(64)]
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    learns_nothing_after_a_while(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
