"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def likelihood_below_zero():
    """Density estimation of narrow data: the loss falls far below zero, rightly."""
    net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(200):
        x = torch.rand(128, 3)
        y = 0.3 * x[:, 0] + 0.01 * torch.randn(128)
        mu, log_s = net(x).unbind(1)
        loss = (log_s + 0.5 * ((y - mu) / log_s.exp()).square()).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    likelihood_below_zero()
