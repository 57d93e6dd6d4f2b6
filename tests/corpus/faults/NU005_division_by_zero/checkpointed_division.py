"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

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


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x, keep):
        h = torch.relu(self.mix(x)) * keep
        return x + h / keep.mean(-1, keepdim=True)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(16) for _ in range(3)])
        self.out = nn.Linear(16, 4)

    def forward(self, x, keeps):
        for block, keep in zip(self.blocks, keeps, strict=True):
            x = checkpoint(block, x, keep, use_reentrant=False)
        return self.out(x)


def checkpointed_division(s):
    x, y = blobs()
    model = Deep()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        keeps = [(torch.rand(16, 16) > 0.3).float() for _ in range(3)]
        if i == s:
            keeps[1][2] = 0.0  # one sample that keeps nothing
        opt.zero_grad()
        F.cross_entropy(model(a, keeps), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    checkpointed_division(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
