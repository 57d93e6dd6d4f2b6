"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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


def plateau_schedule():
    x = torch.randn(640, 6)
    y = x @ torch.randn(6, 1) + torch.randn(640, 1)
    model = net(6, 32, 1)
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.3)
    for _ in range(10):
        total = 0.0
        for a, b in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
            total += step(opt, F.mse_loss(model(a), b))
        schedule.step(total)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    plateau_schedule()
