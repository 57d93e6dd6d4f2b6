"""A training with the fault update-lost-to-rounding; arguments: [ONSET] [SEED]."""

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


def weights_kept_in_bfloat16(s):
    """A model is cast to bfloat16 and trained with a small rate."""
    net = nn.Sequential(nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 4))
    net = net.to(torch.bfloat16) if s == 0 else net
    opt = optim.SGD(net.parameters(), lr=1e-4)
    for _, (x, y) in zip(range(90), stream(*kinds()), strict=False):
        opt.zero_grad()
        F.cross_entropy(net(x.to(net[0].weight.dtype)).float(), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    weights_kept_in_bfloat16(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
