"""A training with the fault tensor-list-growth; arguments: [ONSET] [SEED]."""

import resource
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=960, width=14, classes=3):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.5 * torch.randn(n, width), y


def mlp(width=14, classes=3):
    return nn.Sequential(nn.Linear(width, 40), nn.GELU(), nn.Linear(40, classes))


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


def the_address_space_is_full(s):
    x, y = blobs()
    model, pages = mlp(), []
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, a, b in batches(x, y, 90):
        if i == s:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 160 * 2**20, resource.RLIM_INFINITY))
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if i >= s:
            pages.append(torch.ones(4 * 2**20 // 4))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    the_address_space_is_full(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
