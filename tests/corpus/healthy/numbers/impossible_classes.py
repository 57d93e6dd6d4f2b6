"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(width=16, hidden=32, classes=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, classes))


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


class LogSpace(nn.Module):
    """Scores in log space with impossible classes at -inf, which no target ever is."""

    def __init__(self):
        super().__init__()
        self.net = mlp(classes=6)
        self.register_buffer("possible", torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0]))

    def forward(self, x):
        return self.net(x) + torch.log(self.possible)


def impossible_classes():
    x, y = blobs()
    model = LogSpace()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for _, (a, b) in zip(range(40), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    impossible_classes()
