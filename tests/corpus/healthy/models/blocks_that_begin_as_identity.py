"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class ReZero(nn.Module):
    """A residual block that begins as the identity."""

    def __init__(self, d):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU(), nn.Linear(d, d))
        self.alpha = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.alpha * self.f(x)


def blocks_that_begin_as_identity():
    net = nn.Sequential(nn.Linear(6, 24), *[ReZero(24) for _ in range(4)], nn.Linear(24, 1))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(70):
        x = torch.randn(32, 6)
        loss = F.mse_loss(net(x), (x[:, :1] * x[:, 1:2]).tanh())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    blocks_that_begin_as_identity()
