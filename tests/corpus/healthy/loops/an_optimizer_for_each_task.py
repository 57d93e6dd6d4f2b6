"""A healthy training that looks odd; argument: [SEED]."""

import copy
import math
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def an_optimizer_for_each_task():
    """Each task has an Adam of its own; then the weights go a part of the way and are loaded."""
    net = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
    for _ in range(30):
        height, phase = 0.5 + 2 * torch.rand(1), math.pi * torch.rand(1)
        before = copy.deepcopy(net.state_dict())
        inner = torch.optim.Adam(net.parameters(), lr=0.005, betas=(0.0, 0.999))
        for _ in range(5):
            x = torch.rand(20, 1) * 10 - 5
            loss = (net(x) - height * torch.sin(x + phase)).square().mean()
            inner.zero_grad()
            loss.backward()
            inner.step()
        after = net.state_dict()
        net.load_state_dict({name: before[name] + 0.3 * (after[name] - before[name]) for name in before})


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    an_optimizer_for_each_task()
