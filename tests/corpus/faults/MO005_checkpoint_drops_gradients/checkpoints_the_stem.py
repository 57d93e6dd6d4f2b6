"""A training with the fault checkpoint-drops-gradients; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


class Stem(nn.Module):
    """A stem, two blocks and a head; the stem is checkpointed on raw input."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(16, 32), nn.GELU())
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(2)])
        self.head = nn.Linear(32, 4)
        self.saving = False

    def forward(self, x):
        x = checkpoint(self.stem, x, use_reentrant=True) if self.saving else self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def checkpoints_the_stem(s):
    x, y = blobs()
    model = Stem()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for i, (a, b) in zip(range(36), batches(x, y), strict=False):
        model.saving = i >= s
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    checkpoints_the_stem(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
