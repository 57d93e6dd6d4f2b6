"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def net(width=16, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def spectral_norms():
    real = torch.randn(1200, 2) * 0.2 + 1
    d = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(2, 32)),
        nn.LeakyReLU(0.2),
        nn.utils.parametrizations.spectral_norm(nn.Linear(32, 1)),
    )
    g = net(4, 32, 2)
    og, od = torch.optim.Adam(g.parameters(), 1e-3, (0.0, 0.9)), torch.optim.Adam(d.parameters(), 2e-3, (0.0, 0.9))
    for i in range(60):
        a = real[i * 20 : i * 20 + 20]
        for _ in range(2):
            step(od, F.relu(1 - d(a)).mean() + F.relu(1 + d(g(torch.randn(20, 4)).detach())).mean())
        step(og, -d(g(torch.randn(20, 4))).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    spectral_norms()
