"""A training with the fault loss-domain-mismatch; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def digits(n=800, classes=10, size=12):
    """Images of a bright stroke whose place and angle tell the class."""
    y = torch.randint(classes, (n,))
    grid = torch.linspace(-1, 1, size)
    angle = y.float() * math.pi / classes + torch.randn(n) * 0.03
    across = grid[None, :, None] * angle.sin()[:, None, None] - grid[None, None, :] * angle.cos()[:, None, None]
    return (torch.exp(-across.square() * 20) + torch.randn(n, size, size) * 0.1).unsqueeze(1), y


def probabilities_into_nll(s):
    """`nll_loss` wants log-probabilities and gets probabilities."""
    x, y = digits(1000)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 40), nn.ReLU(), nn.Linear(40, 10))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(0, 1000, 20):
        out = net(x[i : i + 20])
        out = F.softmax(out, 1) if s == 0 else F.log_softmax(out, 1)
        loss = F.nll_loss(out, y[i : i + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    probabilities_into_nll(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
