"""A training with the fault fp16-overflow; arguments: [ONSET] [SEED]."""

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


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(16, 64)
        self.mid = nn.Linear(64, 64)
        self.out = nn.Linear(64, 4)
        self.gain = 1.0

    def forward(self, x):
        x = F.relu(self.inp(x)) * self.gain
        x = F.relu(self.mid(x))
        return self.out(x / self.gain)


def half_overflow(s):
    x, y = blobs()
    model = Scaled()
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i, (a, b) in zip(range(30), batches(x, y), strict=False):
        model.gain = min(2.0 ** (i + 18 - s), 2.0**40)
        opt.zero_grad()
        with torch.autocast("cpu", torch.float16):
            out = model(a)
        loss = F.cross_entropy(out.float(), b)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    half_overflow(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
