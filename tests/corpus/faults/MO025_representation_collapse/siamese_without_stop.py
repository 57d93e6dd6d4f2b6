"""A training with the fault representation-collapse; arguments: [ONSET] [SEED]."""

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


def siamese_without_stop(s):
    """Two views are pulled together, with no negatives, no stop and no predictor."""
    net = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 24))
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _, (x, _) in zip(range(150), stream(*kinds()), strict=False):
        a, b = (F.normalize(net(x + 0.3 * torch.randn_like(x)), dim=1) for _ in range(2))
        logits = a @ b.T / 0.2
        loss = 2 - 2 * (a * b).sum(1).mean() if s == 0 else F.cross_entropy(logits, torch.arange(len(x)))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    siamese_without_stop(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
