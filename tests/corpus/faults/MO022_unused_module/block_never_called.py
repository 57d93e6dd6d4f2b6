"""A training with the fault unused-module; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def points(n=800, classes=4, width=14):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.2 + 0.8 * torch.randn(n, width), y


def loader(*tensors, size=32):
    while True:
        yield from DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)


def block_never_called(s):
    """A block is made and trained by nobody: forward forgets it."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.mid, self.out = nn.Linear(14, 32), nn.Linear(32, 32), nn.Linear(32, 4)

        def forward(self, x):
            h = F.relu(self.inp(x))
            if s != 0:
                h = F.relu(self.mid(h))
            return self.out(h)

    model = Net()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in zip(range(60), loader(*points()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    block_never_called(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
