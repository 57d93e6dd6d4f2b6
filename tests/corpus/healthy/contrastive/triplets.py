"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4, noise=0.8):
    y = torch.randint(classes, (n,))
    centres = torch.randn(classes, width)
    return centres[y] + noise * torch.randn(n, width), y


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


def triplets():
    x, y = blobs(600)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 8))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(120):
        k = torch.randint(600, (32,))
        same = torch.stack([torch.nonzero(y == y[i])[torch.randint(int((y == y[i]).sum()), (1,))][0, 0] for i in k])
        other = torch.stack([torch.nonzero(y != y[i])[torch.randint(int((y != y[i]).sum()), (1,))][0, 0] for i in k])
        step(opt, F.triplet_margin_loss(model(x[k]), model(x[same]), model(x[other]), margin=0.5))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    triplets()
