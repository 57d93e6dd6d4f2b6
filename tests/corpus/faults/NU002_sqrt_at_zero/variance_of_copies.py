"""A training with the fault sqrt-at-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def variance_of_copies(s):
    """Self-supervised learning that holds up the deviation of each feature; one batch is a single sample, repeated."""
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(60):
        x = torch.randn(32, 12)
        if step == s:
            x = x[:1].repeat(32, 1)
        a, b = net(x), net(x + (0 if step == s else 0.1) * torch.randn(32, 12))
        loss = F.mse_loss(a, b) + F.relu(1 - a.var(0).sqrt()).mean() + F.relu(1 - b.var(0).sqrt()).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    variance_of_copies(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
