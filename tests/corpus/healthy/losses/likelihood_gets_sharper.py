"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


class _Spread(nn.Module):
    """A mean and the logarithm of a spread for each point."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU())
        self.mean, self.log_spread = nn.Linear(48, 1), nn.Linear(48, 1)

    def forward(self, x):
        h = self.body(x)
        return self.mean(h), self.log_spread(h)


def likelihood_gets_sharper():
    """Points with little noise: the likelihood gets sharper and its gradients steeper, while the loss falls below zero."""
    net = _Spread()
    opt = torch.optim.Adam(net.parameters(), 4e-3)
    for _ in range(180):
        x = torch.rand(64, 2) * 2 - 1
        y = torch.sin(2 * x[:, :1]) * 0.3 + 0.01 * torch.randn(64, 1)
        mean, log_spread = net(x)
        loss = (log_spread + 0.5 * ((y - mean) / log_spread.exp()) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    likelihood_gets_sharper()
