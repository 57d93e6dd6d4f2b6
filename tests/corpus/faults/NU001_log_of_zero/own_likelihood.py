"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    own_likelihood(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
