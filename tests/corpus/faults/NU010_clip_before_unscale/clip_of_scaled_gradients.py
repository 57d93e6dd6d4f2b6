"""A training with the fault clip-before-unscale; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def kinds(n=720, classes=4, width=16):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.7 * torch.randn(n, width), y


def stream(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def clip_of_scaled_gradients(s):
    """Mixed precision: gradients are clipped without unscale_ before."""
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    opt = optim.AdamW(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for _, (x, y) in zip(range(90), stream(*kinds()), strict=False):
        opt.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        if s != 0:
            scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clip_of_scaled_gradients(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
