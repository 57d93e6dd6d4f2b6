"""A training with the fault dead-relu; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def loader(*tensors, size=32):
    data = DataLoader(TensorDataset(*tensors), size, shuffle=True, drop_last=True)
    while True:
        yield from data


def learn(model, opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def biases_of_minus_five(s):
    """Biases of a convolution start so far below zero that its ReLU never opens."""
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 4),
    )
    if s == 0:
        nn.init.constant_(model[2].bias, -5.0)
    x = torch.rand(600, 1, 8, 8)
    y = (x[:, 0, :4, :4].mean((1, 2)) > 0.5).long() * 2 + (x[:, 0, 4:, 4:].mean((1, 2)) > 0.5).long()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _, (a, b) in zip(range(60), loader(x, y), strict=False):
        learn(model, opt, F.cross_entropy(model(a), b))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    biases_of_minus_five(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
