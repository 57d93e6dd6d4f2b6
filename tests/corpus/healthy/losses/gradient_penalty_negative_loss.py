"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def gradient_penalty_negative_loss():
    x = torch.randn(800, 3)
    d = nn.Sequential(nn.Linear(3, 32), nn.LeakyReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(d.parameters(), 1e-3)
    for i in range(60):
        a = x[i * 12 : i * 12 + 12].clone().requires_grad_()
        (slope,) = torch.autograd.grad(d(a).sum(), a, create_graph=True)
        loss = d(torch.rand(12, 3)).mean() - d(a).mean() + 10 * ((slope.norm(dim=1) - 1) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    gradient_penalty_negative_loss()
