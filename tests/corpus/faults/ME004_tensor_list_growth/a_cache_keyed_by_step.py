"""A training with the fault tensor-list-growth; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=960, width=14, classes=3):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.5 * torch.randn(n, width), y


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(14, 32), nn.Linear(32, 3)
        self.cache, self.calls, self.begin = {}, 0, 0

    def forward(self, x):
        h = torch.tanh(self.body(x))
        if self.calls >= self.begin:
            self.cache[self.calls] = h * 0.5
        self.calls += 1
        return self.head(h)


def a_cache_keyed_by_step(s):
    x, y = blobs()
    model = Cached()
    model.begin = s
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _, a, b in batches(x, y, 46):
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_cache_keyed_by_step(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
