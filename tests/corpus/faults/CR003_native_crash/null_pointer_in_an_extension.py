"""A training with the fault native-crash; arguments: [ONSET] [SEED]."""

import ctypes
import sys

import torch
from torch import nn

torch.set_num_threads(1)


def null_pointer_in_an_extension(s):
    """Null pointer in an extension."""
    fa = s if s < 1000 else -1

    class Kernel(nn.Module):
        def __init__(self):
            super().__init__()
            self.crash = False

        def forward(self, x):
            if self.crash:
                ctypes.string_at(0)
            return torch.relu(x)

    net = nn.Sequential(nn.Linear(6, 16), Kernel(), nn.Linear(16, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(60):
        net[1].crash = step == fa
        x = torch.randn(32, 6)
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    null_pointer_in_an_extension(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
