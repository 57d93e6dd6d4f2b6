"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def large_margin():
    """A linear machine with a hinge loss; once all is separated the gradient is exactly zero."""
    net = nn.Linear(5, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    w = torch.randn(5)
    for _ in range(90):
        x = torch.randn(16, 5)
        score = x @ w
        x, y = x[score.abs() > 1], score[score.abs() > 1].sign()
        loss = F.relu(1 - y * net(x)[:, 0] * 3).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    large_margin()
