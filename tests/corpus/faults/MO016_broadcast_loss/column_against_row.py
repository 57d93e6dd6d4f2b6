"""A training with the fault broadcast-loss; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def column_against_row(s):
    x = torch.randn(400, 6)
    y = x @ torch.randn(6)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(30):
        at = torch.randint(400, (32,))
        opt.zero_grad()
        ((model(x[at]) - y[at]) ** 2).mean().backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    column_against_row(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
