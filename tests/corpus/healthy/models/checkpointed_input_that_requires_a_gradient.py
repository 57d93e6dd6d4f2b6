"""A healthy training that looks odd; argument: [SEED]."""

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


def train(model, steps=40, lr=3e-3, x=None, y=None):
    if x is None:
        x, y = blobs()
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr)
    for _, (a, b) in zip(range(steps), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def checkpointed_input_that_requires_a_gradient():
    model = Stem()
    model.saving = True
    model.register_forward_pre_hook(lambda m, args: (args[0].clone().requires_grad_(),))
    train(model)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    checkpointed_input_that_requires_a_gradient()
