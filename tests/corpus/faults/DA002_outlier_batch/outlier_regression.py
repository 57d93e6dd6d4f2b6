"""A training with the fault outlier-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def outlier_regression(s):
    x = torch.randn(800, 8)
    y = x @ torch.randn(8, 1) + 0.1 * torch.randn(800, 1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(40):
        a, b = x[i * 20 : i * 20 + 20], y[i * 20 : i * 20 + 20]
        if i == s:
            a = a * 2000.0
            b = b * 2000.0
        loss = F.mse_loss(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    outlier_regression(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
