"""A training with the fault repeated-batch-order; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def points(n=800, classes=4, width=14):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.2 + 0.8 * torch.randn(n, width), y


def net(width=14, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def same_seed_in_every_epoch(s):
    """The generator of the sampler is seeded anew in each epoch."""
    x, y = points(640)
    model = net()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator()
    for epoch in range(5):
        generator.manual_seed(0 if s == 0 else epoch)
        for a, b in DataLoader(TensorDataset(x, y), 32, shuffle=True, generator=generator):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    same_seed_in_every_epoch(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
