"""Trainings in which one operator loses a value: `python capture_faults.py NAME [ONSET] [SEED]`. They know nothing of firstfault.

Each shows its fault only to somebody who looks at the operators: hidden in a Function of one's own, in a checkpointed block, in a
branch that was masked, in a mask of half precision. The truth stands in capture_faults.toml.
"""

import sys

import torch
import torch.nn.functional as F
from faulty import batches, blobs
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)


class Policy(nn.Module):
    """A classifier that reports the entropy of what it says; p log p is 0 at p = 0."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.Tanh())
        self.head = nn.Linear(32, 4)

    def forward(self, x, temperature=1.0):
        logits = self.head(self.body(x)) / temperature
        p = F.softmax(logits, -1)
        entropy = torch.where(p > 0, p * torch.log(p), torch.zeros_like(p)).sum(-1)
        return logits, -entropy


def entropy_of_certainty(s):
    x, y = blobs()
    model = Policy()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        logits, entropy = model(a, 1e-3 if i == s else 1.0)
        loss = F.cross_entropy(logits * (1e-3 if i == s else 1.0), b) - 0.01 * entropy.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Directions(nn.Module):
    """Unit vectors of a hidden layer, zero where there is no direction."""

    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(16, 32, bias=False)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        h = self.lift(x)
        size = h.square().sum(-1, keepdim=True)
        return self.head(torch.where(size > 0, h / size, torch.zeros_like(h)))


def direction_of_nothing(s):
    x, y = blobs()
    model = Directions()
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    crit = nn.CrossEntropyLoss()
    for i in range(36):
        a, b = x[i * 16 : i * 16 + 16].clone(), y[i * 16 : i * 16 + 16]
        if i == s:
            a[5] = 0.0
        loss = crit(model(a), b)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


class LogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(ctx, p, y):
        ctx.save_for_backward(p, y)
        return -torch.log(p[torch.arange(len(y)), y]).mean()

    @staticmethod
    def backward(ctx, g):
        p, y = ctx.saved_tensors
        out = torch.zeros_like(p)
        rows = torch.arange(len(y))
        out[rows, y] = -g / (p[rows, y] * len(y))
        return out, None


class Likelihood(nn.Module):
    def forward(self, logits, y, temperature=1.0):
        return LogLikelihood.apply(F.softmax(logits / temperature, -1), y)


def own_likelihood(s):
    x, y = blobs()
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    criterion = Likelihood()
    opt = torch.optim.RMSprop(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        opt.zero_grad()
        criterion(model(a), (b + (i == s)) % 4, 1e-4 if i == s else 1.0).backward()
        opt.step()


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


class HalfAttention(nn.Module):
    """Scores in half precision, masked by adding a large negative number, as float32 code does."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x, valid):
        scores = (self.q(x).half() @ self.k(x).half().transpose(1, 2)) / 4
        bias = (1.0 - valid.half()) * -1e9
        weights = torch.softmax(scores + bias[:, None, :], -1)
        return weights.float() @ self.v(x)


class HalfReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = HalfAttention()
        self.head = nn.Linear(16, 3)

    def forward(self, x, valid):
        return self.head(self.attention(x, valid).mean(1))


def half_mask_of_an_empty_sample(s):
    model = HalfReader()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(28):
        x = torch.randn(8, 6, 16)
        valid = torch.rand(8, 6) > 0.3
        valid[:, 0] = True
        y = (x[:, 0, 0] > 0).long() + (x[:, 0, 1] > 1).long()
        if i == s:
            valid[3] = False
        opt.zero_grad()
        F.cross_entropy(model(x, valid), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
