"""A training with the fault zero-grad-missing; arguments: [ONSET] [SEED]."""

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


def softmax_and_no_zeroing(s):
    """Two faults: softmax before cross_entropy, and no zero_grad."""
    net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
    if s == 0:
        net.append(nn.Softmax(1))
    opt = optim.SGD(net.parameters(), lr=0.02)
    for _, (x, y) in zip(range(90), stream(*kinds()), strict=False):
        if s != 0:
            opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    softmax_and_no_zeroing(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
