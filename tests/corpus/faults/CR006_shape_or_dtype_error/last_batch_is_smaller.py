"""A training with the fault shape-or-dtype-error; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def clusters(n, d, classes, spread=1.0):
    """Points round one centre for each class."""
    centres = torch.randn(classes, d) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + spread * torch.randn(n, d), y


def last_batch_is_smaller(s):
    """A reshape with the batch size written in; the loader's last batch is smaller."""
    x, y = clusters(24 * s + 10 if s < 1000 else 24 * 30, 18, 3)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
    head = nn.Linear(48, 3)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-3)
    for xb, yb in DataLoader(TensorDataset(x, y), batch_size=24):
        h = net(xb.reshape(24, 3, -1)[..., :6])
        opt.zero_grad()
        F.cross_entropy(head(h.reshape(24, -1)), yb).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    last_batch_is_smaller(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
