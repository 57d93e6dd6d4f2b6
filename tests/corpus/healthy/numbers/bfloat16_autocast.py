"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def kinds(n=720, classes=4, width=16, noise=0.8):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + noise * torch.randn(n, width), y


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def learn(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def bfloat16_autocast():
    """Mixed precision as on CPUs: autocast to bfloat16, weights in float32, no scaler."""
    model = nn.Sequential(nn.Linear(16, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 4))
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(120), stream(*kinds()), strict=False):
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(a), b)
        learn(opt, loss)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    bfloat16_autocast()
