"""A training with the fault input-dtype-or-shape-change; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def inputs_get_a_dimension(s):
    x = torch.randn(400, 6)
    y = x @ torch.randn(6)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(s + 10):
        at = torch.randint(400, (16,))
        a = x[at]
        if i >= s:
            a = a[:, None, :]
        opt.zero_grad()
        F.mse_loss(model(a).reshape(16), y[at]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    inputs_get_a_dimension(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
