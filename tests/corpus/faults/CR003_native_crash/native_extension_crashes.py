"""A training with the fault native-crash; arguments: [ONSET] [SEED]."""

import ctypes
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


class Buggy(nn.Module):
    """A layer around native code that reads where it must not."""

    def __init__(self, at):
        super().__init__()
        self.at, self.calls = at, 0

    def forward(self, x):
        if self.calls == self.at:
            ctypes.string_at(0)
        self.calls += 1
        return x


def native_extension_crashes(s):
    net = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), Buggy(s), nn.Linear(24, 1))
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(60):
        x = torch.randn(32, 7)
        opt.zero_grad()
        F.mse_loss(net(x), x.sum(1, keepdim=True)).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    native_extension_crashes(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
