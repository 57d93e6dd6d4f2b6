"""Faults of blocks and buffers that autograd or training never hears of: `python graph_faults.py NAME [ONSET] [SEED]`.

They know nothing of firstfault; `s` is the step at which the fault begins. The truth stands in graph_faults.toml.
"""

import itertools
import sys

import torch
import torch.nn.functional as F
from faulty import batches, blobs
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.set_num_threads(1)


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


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 24)
        self.embed.weight.requires_grad = False
        self.layers = nn.Sequential(*[nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 24), nn.Tanh()) for _ in range(4)])
        self.out = nn.Linear(24, 6)

    def forward(self, ids):
        h = checkpoint_sequential(self.layers, 2, self.embed(ids), use_reentrant=True)
        return self.out(h.mean(1))


def checkpoints_behind_frozen_embeddings(s):
    model = Tower()
    opt = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1, momentum=0.9)
    for _ in range(30):
        ids = torch.randint(50, (16, 5))
        loss = F.cross_entropy(model(ids), ids[:, 0] % 6)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Standardise(nn.Module):
    """Takes mean and spread from the first training batch."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("spread", torch.zeros(width))
        self.ready = False

    def forward(self, x):
        if self.training and not self.ready:
            self.mean.copy_(x.detach().mean(0))
            self.spread.copy_(x.detach().std(0))
            self.ready = True
        return (x - self.mean) / (self.spread + 1e-6)


def evaluates_before_the_buffers_are_set(s):
    x, y = blobs()
    model = nn.Sequential(Standardise(16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    stream, held = batches(x, y), (torch.randn(64, 16) * 2, torch.randint(4, (64,)))
    for _ in range(3):
        model.eval()
        with torch.no_grad():
            F.cross_entropy(model(held[0]), held[1]).item()
        model.train()
        for a, b in itertools.islice(stream, 10):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


class Quantised(nn.Module):
    """Scales by a running maximum that is left as memory was until training sets it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Conv1d(3, 8, 3)
        self.register_buffer("largest", torch.empty(1).fill_(2.0e-30))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        h = self.inner(x)
        if self.training:
            self.largest.copy_(h.detach().abs().max())
        return self.head((h / self.largest).mean(2))


def sanity_check_on_empty_memory(s):
    model = Quantised()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    model.eval()
    with torch.no_grad():
        model(torch.randn(4, 3, 12))
    model.train()
    for _ in range(20):
        x = torch.randn(12, 3, 12)
        opt.zero_grad()
        F.cross_entropy(model(x), (x.mean((1, 2)) > 0).long()).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 14)
