"""A training with the fault accumulation-not-normalised; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def accumulates_full_means_of_a_regression(s):
    x = torch.randn(600, 8)
    y = x @ torch.randn(8, 1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(20):
        opt.zero_grad()
        for _ in range(3):
            at = torch.randint(600, (16,))
            F.mse_loss(model(x[at]), y[at]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    accumulates_full_means_of_a_regression(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
