"""A training with the fault output-loss-mismatch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def sigmoid_before_large_targets():
    x = torch.rand(256, 5) * 4
    prices = 20 + 6 * x[:, :1] - 2 * x[:, 1:2] + torch.randn(256, 1)
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1), nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(60):
        rows = torch.arange(step * 32, step * 32 + 32) % len(x)
        optimizer.zero_grad()
        F.smooth_l1_loss(model(x[rows]), prices[rows]).backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sigmoid_before_large_targets()
