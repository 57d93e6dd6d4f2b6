"""A training with the fault stuck-in-eval-mode; arguments: [ONSET] [SEED]."""

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


def never_back_to_training(s):
    """The validation within an epoch calls eval() and nobody calls train() again."""
    net = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 4))
    opt = optim.Adam(net.parameters(), lr=3e-3)
    x, y = kinds(900)
    net.train()
    for step, (a, b) in zip(range(110), stream(x[:720], y[:720]), strict=False):
        opt.zero_grad()
        F.cross_entropy(net(a), b).backward()
        opt.step()
        if step % 20 == 19:
            net.eval()
            with torch.no_grad():
                net(x[720:])
            if step < s:
                net.train()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    never_back_to_training(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
