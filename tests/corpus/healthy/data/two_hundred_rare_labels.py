"""A healthy training that looks odd; argument: [SEED]."""

import math
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def two_hundred_rare_labels():
    """Extreme multi-label: 200 labels, 1 % positive, BCE with pos_weight; loss starts high; final bias init at log prior."""
    net = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 200))
    nn.init.constant_(net[2].bias, math.log(0.01 / 0.99))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    table = torch.randn(30, 200)
    for _i in range(100):
        x = torch.randn(32, 30)
        y = ((x @ table) > 13).float()
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), y, pos_weight=torch.full((200,), 20.0))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    two_hundred_rare_labels()
