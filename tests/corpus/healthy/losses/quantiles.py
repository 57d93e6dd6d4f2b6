"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
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


def quantiles():
    x = torch.rand(1200, 1) * 4
    y = x.sin() + torch.randn(1200, 1) * (0.1 + 0.3 * x)
    model = net(1, 32, 3, nn.Tanh)
    levels = torch.tensor([0.1, 0.5, 0.9])
    opt = torch.optim.RMSprop(model.parameters(), 1e-3)
    for i in range(120):
        s = slice(i * 24 % 1200, i * 24 % 1200 + 24)
        error = y[s] - model(x[s])
        step(opt, torch.max(levels * error, (levels - 1) * error).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    quantiles()
