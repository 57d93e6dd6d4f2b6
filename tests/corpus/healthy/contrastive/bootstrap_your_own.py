"""A healthy training that looks odd; argument: [SEED]."""

import copy
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


def bootstrap_your_own():
    x, _ = blobs(640)
    online = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    predictor = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.SGD([*online.parameters(), *predictor.parameters()], 0.05, momentum=0.9, weight_decay=1e-4)
    for i in range(80):
        a = x[i * 8 % 600 : i * 8 % 600 + 32]
        one, two = a + 0.3 * torch.randn_like(a), a + 0.3 * torch.randn_like(a)
        with torch.no_grad():
            goal = target(two)
        step(opt, 2 - 2 * F.cosine_similarity(predictor(online(one)), goal).mean())
        with torch.no_grad():
            for p, q in zip(target.parameters(), online.parameters(), strict=True):
                p.lerp_(q, 0.02)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    bootstrap_your_own()
