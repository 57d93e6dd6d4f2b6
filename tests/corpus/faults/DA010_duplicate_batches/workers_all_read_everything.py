"""A training with the fault duplicate-batches; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4, spread=1.0):
    centres = torch.randn(classes, width) * 3
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width) * spread, y


def mlp(width=12, hidden=24, classes=4):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class Stream(IterableDataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        yield from zip(self.x, self.y, strict=True)


def workers_all_read_everything(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for a, b in DataLoader(Stream(*blobs(n=256)), batch_size=16, num_workers=2):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    workers_all_read_everything(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
