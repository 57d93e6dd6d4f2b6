"""A training with the fault masked-branch-nan-gradient; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def entropy_with_a_masked_class(s):
    """Utility with a masked logarithm: torch.where(q > 0, q * log q, 0)."""
    onset = s
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5))
    opt = torch.optim.SGD(net.parameters(), 0.05)
    for i in range(80):
        x = torch.randn(20, 8)
        y = x[:, :5].argmax(1)
        z = net(x)
        keep = torch.ones(20, 5)
        if i == onset:
            keep[3, 2] = 0.0
        q = z.softmax(1) * keep
        ent = torch.where(q > 0, q * q.log(), torch.zeros_like(q)).sum(1).mean()
        loss = nn.functional.cross_entropy(z, y) + 0.05 * ent
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    entropy_with_a_masked_class(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
