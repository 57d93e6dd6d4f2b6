"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def poisson_counts():
    x = torch.randn(1000, 5)
    y = torch.poisson(torch.exp(x[:, 0] * 0.7 + 1))
    model = nn.Linear(5, 1)
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for i in range(60):
        loss = F.poisson_nll_loss(model(x[i * 16 : i * 16 + 16]).squeeze(1), y[i * 16 : i * 16 + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    poisson_counts()
