"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def rate_that_restarts():
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9, nesterov=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 15, 2, eta_min=1e-4)
    centres = torch.randn(3, 8)
    for _ in range(105):
        y = torch.randint(3, (24,))
        opt.zero_grad()
        F.cross_entropy(net(centres[y] + torch.randn(24, 8)), y).backward()
        opt.step()
        sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    rate_that_restarts()
