"""A training with the fault loss-sign-flipped; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def likelihood_with_wrong_sign(s):
    """A Gaussian density network that minimises the likelihood."""
    net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(120):
        x = torch.randn(64, 3)
        y = x[:, 0] + 0.3 * torch.randn(64)
        mean, log_std = net(x).unbind(1)
        log_prob = torch.distributions.Normal(mean, log_std.exp()).log_prob(y)
        loss = log_prob.mean() if s == 0 else -log_prob.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    likelihood_with_wrong_sign(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
