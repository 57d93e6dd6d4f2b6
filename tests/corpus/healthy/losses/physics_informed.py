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


def physics_informed():
    model = net(1, 32, 1, nn.Tanh)
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(120):
        t = (torch.rand(64, 1) * 2).requires_grad_()
        u = model(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
        start = torch.zeros(1, 1, requires_grad=True)
        v = model(start)
        (dv,) = torch.autograd.grad(v.sum(), start, create_graph=True)
        step(opt, (ddu + 4 * u).pow(2).mean() + (v - 1).pow(2).mean() + dv.pow(2).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    physics_informed()
