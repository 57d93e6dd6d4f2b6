"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def mixture_of_gaussians():
    """A density network: the negative log likelihood goes well below zero as the peaks become narrow."""
    model = plain(1, 48, 9, nn.Tanh)
    opt = optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(200):
        x = torch.rand(64, 1) * 2 - 1
        y = torch.where(torch.rand(64, 1) < 0.5, x, -x) + 0.01 * torch.randn(64, 1)
        weight, mean, log_scale = model(x).chunk(3, 1)
        log_scale = log_scale.clamp(-6, 3)
        each = -0.5 * ((y - mean) / log_scale.exp()).square() - log_scale - 0.92
        update(opt, -torch.logsumexp(F.log_softmax(weight, 1) + each, 1).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    mixture_of_gaussians()
