"""A training with the fault scheduler-stepped-too-often; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(width=12, hidden=24, classes=4, act=nn.GELU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.LayerNorm(hidden), nn.Linear(hidden, classes))


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def schedule_per_microbatch(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    plan = CosineAnnealingLR(opt, T_max=20)
    data = batches(*blobs())
    for _ in range(20):
        opt.zero_grad()
        for _ in range(4):
            a, b = next(data)
            (F.cross_entropy(model(a), b) / 4).backward()
            plan.step()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    schedule_per_microbatch(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
