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


def weighs_its_tasks_itself():
    """Learnt weights of two tasks, by their uncertainty: the total goes below zero."""
    model, log_variance = plain(out=2), nn.Parameter(torch.zeros(2))
    opt = optim.Adam([*model.parameters(), log_variance], lr=5e-3)
    for _ in range(150):
        x = torch.randn(48, 10)
        a, b = model(x).unbind(1)
        each = torch.stack([F.mse_loss(a, x[:, 0] * 0.3), F.mse_loss(b, x[:, 1].abs() * 0.2)])
        update(opt, (each * (-log_variance).exp() + log_variance).sum())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    weighs_its_tasks_itself()
