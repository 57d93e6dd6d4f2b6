"""A healthy training that looks odd; argument: [SEED]."""

import copy
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def rate_by_a_factor_until_it_breaks():
    """The rate grows by a sixth at each step until the loss is lost; weights and optimizer are put back, and training begins."""
    x = torch.randn(1200, 10)
    y = 3 * torch.tanh(x @ torch.randn(10, 1))
    net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.SGD(net.parameters(), lr=1e-5, momentum=0.9)
    weights, state = copy.deepcopy(net.state_dict()), copy.deepcopy(opt.state_dict())

    def step():
        i = torch.randint(0, 1200, (64,))
        loss = F.mse_loss(net(x[i]), y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.item()

    for _ in range(120):
        loss = step()
        if not math.isfinite(loss):
            break
        for group in opt.param_groups:
            group["lr"] *= 7 / 6
    net.load_state_dict(weights)
    opt.load_state_dict(state)
    for group in opt.param_groups:
        group["lr"] = 5e-3
    for _ in range(160):
        step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    rate_by_a_factor_until_it_breaks()
