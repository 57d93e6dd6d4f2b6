"""A training with the fault unregistered-parameters; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def train(model, steps, data=None, lr=1e-3, each=lambda i: None):
    opt = torch.optim.Adam(model.parameters(), lr)
    for i, (a, b) in zip(range(steps), data or forever(*blobs()), strict=False):
        each(i)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = {"a": nn.Linear(12, 16), "b": nn.Linear(12, 16)}
        self.gate = nn.Linear(12, 1)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        return self.head(torch.tanh(g * self.experts["a"](x) + (1 - g) * self.experts["b"](x)))


def experts_in_a_dict(s):
    train(Experts(), 20)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    experts_in_a_dict(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
