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


def siamese_pairs():
    x, y = blobs(600)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for _ in range(100):
        i, j = torch.randint(600, (32,)), torch.randint(600, (32,))
        distance = F.pairwise_distance(model(x[i]), model(x[j]))
        same = (y[i] == y[j]).float()
        step(opt, (same * distance**2 + (1 - same) * F.relu(1 - distance) ** 2).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    siamese_pairs()
