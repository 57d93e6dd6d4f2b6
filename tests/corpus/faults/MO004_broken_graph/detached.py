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


class Detaching(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32))
        self.decoder = nn.Linear(32, 4)
        self.cut = False

    def forward(self, x):
        z = self.encoder(x)
        if self.cut:
            z = z.detach()
        return self.decoder(z)


def detached(s):
    x, y = blobs()
    model = Detaching()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        model.cut = i >= s
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    detached(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
