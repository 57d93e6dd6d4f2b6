"""A training with the fault train-eval-leak; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def wines(n=900, columns=11, classes=4):
    """A table of standardised measurements and a quality."""
    y = torch.randint(classes, (n,))
    return torch.randn(classes, columns)[y] * 1.2 + torch.randn(n, columns), y


def oversampled_before_the_split(s):
    """Rare rows are repeated to balance the classes, and only then is the table split."""
    x, y = wines(400)
    if s == 0:
        rare = (y == 0).nonzero()[:, 0].repeat(6)
        x, y = torch.cat([x, x[rare]]), torch.cat([y, y[rare]])
    order = torch.randperm(len(y))
    cut = int(0.8 * len(y))
    train, held_out = order[:cut], order[cut:]
    net = nn.Sequential(nn.Linear(11, 32), nn.Tanh(), nn.Linear(32, 4))
    opt = optim.Adam(net.parameters(), lr=3e-3)
    for _epoch in range(4):
        net.train()
        for a, b in DataLoader(TensorDataset(x[train], y[train]), batch_size=32, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(net(a), b).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            for a, b in DataLoader(TensorDataset(x[held_out], y[held_out]), batch_size=32):
                F.cross_entropy(net(a), b).item()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    oversampled_before_the_split(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
