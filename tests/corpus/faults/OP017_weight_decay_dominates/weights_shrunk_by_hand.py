"""A training with the fault weight-decay-dominates; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def weights_shrunk_by_hand(s):
    """A decay of five percent a step after each step of the optimizer."""
    net = nn.Sequential(nn.Linear(20, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 6))
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    turn = torch.randn(20, 6)
    for i in range(160):
        x = torch.randn(64, 20)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i >= s:
            with torch.no_grad():
                for p in net.parameters():
                    p.mul_(0.95)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    weights_shrunk_by_hand(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
