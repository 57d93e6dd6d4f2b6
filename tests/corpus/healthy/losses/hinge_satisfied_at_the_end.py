"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def hinge_satisfied_at_the_end():
    """Separable data and a hinge: most late batches have a loss of exactly nought."""
    net = nn.Linear(6, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    w = torch.randn(6)
    for _ in range(150):
        x = torch.randn(200, 6)
        x = x[(x @ w).abs() > 1.0][:48]
        y = (x @ w).sign()
        loss = torch.clamp(1 - y * net(x).squeeze(1), min=0).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    hinge_satisfied_at_the_end()
