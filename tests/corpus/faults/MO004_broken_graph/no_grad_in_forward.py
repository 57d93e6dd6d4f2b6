"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

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


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Linear(16, 32)
        self.mid = nn.Linear(32, 32)
        self.back = nn.Linear(32, 4)

    def forward(self, x):
        with torch.no_grad():  # somebody measured the activation range here
            h = F.gelu(self.mid(F.gelu(self.front(x))))
        return self.back(h)


def no_grad_in_forward(_):
    x, y = blobs()
    model = Quantised()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _, (a, b) in zip(range(30), batches(x, y), strict=False):
        F.cross_entropy(model(a), b).backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    no_grad_in_forward(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
