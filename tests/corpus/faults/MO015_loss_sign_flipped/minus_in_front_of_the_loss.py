"""A training with the fault loss-sign-flipped; arguments: [ONSET] [SEED]."""

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


def net(width=14, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def minus_in_front_of_the_loss(s):
    """(-loss).backward() after a change from a reward to a loss."""
    model = net(14, 48, 1, nn.Tanh)
    x, _ = points()
    y = x[:, :3].sum(1, keepdim=True)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _, (a, b) in zip(range(110), loader(x, y), strict=False):
        loss = F.l1_loss(model(a), b)
        opt.zero_grad()
        (-loss if s == 0 else loss).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    minus_in_front_of_the_loss(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
