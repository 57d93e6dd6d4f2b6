"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def only_the_hard_ones():
    """Hard-example mining: easy batches give no step at all, the rest only their worst quarter."""
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    w = torch.randn(10)
    for _ in range(120):
        x = torch.randn(64, 10)
        y = (x @ w > 0).long()
        each = nn.functional.cross_entropy(net(x), y, reduction="none")
        worst = each.topk(16).values
        if worst.mean() < 0.3:
            continue
        opt.zero_grad()
        worst.mean().backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    only_the_hard_ones()
