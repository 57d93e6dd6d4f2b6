"""Healthy runs with infinities and NaN that do no harm: `python odd_capture.py NAME [SEED]`."""

import sys

import torch
import torch.nn.functional as F
from capture_faults import HalfReader
from faulty import batches, blobs, mlp
from torch import nn

torch.set_num_threads(1)


class SafeEntropy(nn.Module):
    """p log p the right way: the argument is safe before the logarithm."""

    def __init__(self):
        super().__init__()
        self.net = mlp()

    def forward(self, x):
        logits = self.net(x)
        p = F.softmax(logits * 50, -1)
        ok = p > 0
        return logits, -torch.where(ok, p * torch.log(torch.where(ok, p, 1.0)), 0.0).sum(-1)


def entropy_with_a_double_where():
    x, y = blobs()
    model = SafeEntropy()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _, (a, b) in zip(range(40), batches(x, y), strict=False):
        logits, entropy = model(a)
        loss = F.cross_entropy(logits, b) - 0.01 * entropy.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def half_mask_with_a_key_left():
    model = HalfReader()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(30):
        x = torch.randn(8, 6, 16)
        valid = torch.rand(8, 6) > 0.5
        valid[:, 0] = True
        y = (x[:, 0, 0] > 0).long() + (x[:, 0, 1] > 1).long()
        opt.zero_grad()
        F.cross_entropy(model(x, valid), y).backward()
        opt.step()


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
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
