"""A training with the fault nonfinite-input; arguments: [ONSET] [SEED]."""

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


def bad_row_then_a_bad_index(s):
    """Two faults: an infinite row at the onset, and twenty steps later a class that does not exist."""
    x, y = kinds()
    net = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 4))
    opt = optim.AdamW(net.parameters(), lr=2e-3)
    for step, (a, b) in zip(range(110), stream(x, y), strict=False):
        if step == s:
            a[2, 3] = float("inf")
        if step == s + 20:
            b[1] = 4
        opt.zero_grad()
        loss = F.cross_entropy(net(a), b)
        loss.backward()
        if torch.isfinite(loss):
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    bad_row_then_a_bad_index(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
