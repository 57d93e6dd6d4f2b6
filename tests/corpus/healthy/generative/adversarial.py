"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def adversarial():
    real = torch.randn(1200, 2) * 0.3 + 1
    g = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    d = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    og, od = (
        torch.optim.Adam(g.parameters(), 2e-3, betas=(0.5, 0.999)),
        torch.optim.Adam(d.parameters(), 2e-3, betas=(0.5, 0.999)),
    )
    for i in range(60):
        batch, fake = real[i * 20 : i * 20 + 20], g(torch.randn(20, 4))
        od.zero_grad()
        (F.softplus(-d(batch)).mean() + F.softplus(d(fake.detach())).mean()).backward()
        od.step()
        og.zero_grad()
        F.softplus(-d(fake)).mean().backward()
        og.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    adversarial()
