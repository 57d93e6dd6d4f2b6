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


def ternary_codes():
    """Weights are rounded in forward with a straight-through gradient."""
    w1, w2 = nn.Parameter(torch.randn(16, 48) * 0.3), nn.Parameter(torch.randn(48, 4) * 0.2)
    opt = optim.Adam([w1, w2], lr=3e-3)

    def rounded(w):
        return w + ((w / w.abs().mean()).round().clamp(-1, 1) * w.abs().mean() - w).detach()

    for _, (a, b) in zip(range(120), stream(*kinds()), strict=False):
        learn(opt, F.cross_entropy(F.relu(a @ rounded(w1)) @ rounded(w2), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    ternary_codes()
