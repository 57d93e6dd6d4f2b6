"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def mixed_up():
    x = torch.randn(512, 3, 8, 8)
    y = (x.mean((1, 2, 3)) > 0).long() + 2 * (x[:, 0].mean((1, 2)) > 0).long()
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 4),
    )
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(80):
        s = slice(i * 16 % 512, i * 16 % 512 + 16)
        lam, order = torch.distributions.Beta(0.4, 0.4).sample(), torch.randperm(16)
        out = model(lam * x[s] + (1 - lam) * x[s][order])
        step(opt, lam * F.cross_entropy(out, y[s]) + (1 - lam) * F.cross_entropy(out, y[s][order]))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    mixed_up()
