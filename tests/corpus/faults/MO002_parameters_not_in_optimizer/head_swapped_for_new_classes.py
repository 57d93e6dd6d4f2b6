"""A training with the fault parameters-not-in-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def patterns(n=800, classes=5, width=20):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.8 * torch.randn(n, width), y


def loader(*tensors, size=32):
    data = DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)
    while True:
        yield from data


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def head_swapped_for_new_classes(s):
    """The head is exchanged when classes are added; the optimizer holds the old one."""
    x, y = patterns()
    model = nn.Sequential()
    model.add_module("features", nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU()))
    model.add_module("head", nn.Linear(32, 5))
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    for step, (a, b) in zip(range(130), loader(x, y), strict=False):
        if step == s:
            model.head = nn.Linear(32, 7)
        learn(model, opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    head_swapped_for_new_classes(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
