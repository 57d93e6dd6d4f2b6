"""A training with the fault tensor-list-growth; arguments: [ONSET] [SEED]."""

import sys
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=960, width=14, classes=3):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.5 * torch.randn(n, width), y


def mlp(width=14, classes=3):
    return nn.Sequential(nn.Linear(width, 40), nn.GELU(), nn.Linear(40, classes))


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


class Evaluator:
    def __init__(self, model):
        self.model = model
        self.predictions = defaultdict(list)

    def step(self, a, b, keep):
        out = self.model(a)
        if keep:
            self.predictions["train"].append(out)
        return F.cross_entropy(out, b)


def predictions_in_an_attribute(s):
    x, y = blobs(width=20)
    model = mlp(20)
    evaluator = Evaluator(model)
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i, a, b in batches(x, y, 46):
        loss = evaluator.step(a, b, i >= s)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    predictions_in_an_attribute(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
