"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def momentum_set_to_nothing():
    """For the last part of a training its momentum is taken out, and the buffers rest as they are."""
    net = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    turn = torch.randn(16, 4)
    for i in range(240):
        if i == 160:
            for group in opt.param_groups:
                group["momentum"] = 0.0
        x = torch.randn(64, 16)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    momentum_set_to_nothing()
