"""A training with the fault nonfinite-weights-loaded; arguments: [ONSET] [SEED]."""

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


def checkpoint_with_nan(s):
    """The run starts from a checkpoint that a lost run had saved."""
    model = net()
    if s == 0:
        state = model.state_dict()
        state["2.weight"][3, 5] = float("nan")
        model.load_state_dict(state)
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for _, (a, b) in zip(range(40), loader(*points()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    checkpoint_with_nan(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
