"""A training with the fault fp16-gradient-underflow; arguments: [ONSET] [SEED]."""

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


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def autocast_without_a_scaler(s):
    model = nn.Sequential(nn.Conv1d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, 64), nn.Tanh(), nn.Linear(64, 4))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _, (a, b) in zip(range(25), forever(*blobs()), strict=False):
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(a[:, None])
        opt.zero_grad()
        (F.cross_entropy(out.float(), b, reduction="mean") / 4096 / 16).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    autocast_without_a_scaler(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
