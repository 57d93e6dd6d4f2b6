"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def average_that_is_loaded():
    """Towards the end of the first stage weights are gathered in a running mean, which the second stage starts from."""
    net = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 5))
    mean = copy.deepcopy(net)
    turn = torch.randn(16, 5)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for i in range(240):
        if i == 140:
            net.load_state_dict(mean.state_dict())
            opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
        x = torch.randn(48, 16)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if 60 <= i < 140:
            with torch.no_grad():
                for kept, now in zip(mean.parameters(), net.parameters(), strict=True):
                    kept.lerp_(now, 1 / (i - 59))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    average_that_is_loaded()
