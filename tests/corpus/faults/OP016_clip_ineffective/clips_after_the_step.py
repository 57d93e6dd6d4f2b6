"""A training with the fault clip-ineffective; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
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


def clips_after_the_step(s):
    model = mlp()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for _, (a, b) in zip(range(30), batches(*blobs()), strict=False):
        opt.zero_grad()
        (10 * F.cross_entropy(model(a), b)).backward()
        opt.step()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clips_after_the_step(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
