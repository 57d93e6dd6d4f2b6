"""A training with the fault broadcast-loss; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def column_of_new_source(s):
    """A second source of data gives its targets as a column; the loss makes a square of them."""
    x = torch.randn(1200, 6)
    y = x[:, 0] * 2 - x[:, 1] + 0.1 * torch.randn(1200)
    model = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 1))
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(60):
        a, b = x[step * 20 : step * 20 + 20], y[step * 20 : step * 20 + 20]
        target = b.unsqueeze(1) if step >= s else b
        loss = F.huber_loss(model(a).squeeze(1), target)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    column_of_new_source(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
