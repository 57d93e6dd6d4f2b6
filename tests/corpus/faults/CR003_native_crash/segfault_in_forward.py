"""A training with the fault native-crash; arguments: [ONSET] [SEED]."""

import os
import signal
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


class Killer(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.inner = nn.Linear(32, 32)
        self.how, self.at, self.calls = how, -1, 0

    def forward(self, x):
        if self.training:
            if self.calls == self.at:
                os.kill(os.getpid(), self.how)
            self.calls += 1
        return self.inner(x)


def killed_in_forward(s, how=signal.SIGKILL):
    x, y = blobs()
    model = nn.Sequential(nn.Linear(16, 32), Killer(how), nn.ReLU(), nn.Linear(32, 4))
    model[1].at = s
    opt = torch.optim.Adam(model.parameters())
    for _, (a, b) in zip(range(30), batches(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def segfault_in_forward(s):
    killed_in_forward(s, signal.SIGSEGV)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    segfault_in_forward(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
