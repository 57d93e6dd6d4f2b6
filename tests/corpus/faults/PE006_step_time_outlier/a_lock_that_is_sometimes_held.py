"""A training with the fault step-time-outlier; arguments: [ONSET] [SEED]."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def a_lock_that_is_sometimes_held(_):
    class Cached(nn.Module):
        """Looks up its positions in a cache that another job now and then has locked."""

        def __init__(self):
            super().__init__()
            self.body = nn.Linear(32, 32)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            if (self.calls * 7919) % 101 < 14:
                time.sleep(0.12)
            return x + self.body(x).tanh()

    model = nn.Sequential(nn.Linear(16, 32), Cached(), nn.LayerNorm(32), nn.Linear(32, 1))
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(130):
        x = torch.randn(64, 16)
        step(opt, F.mse_loss(model(x), x[:, :1].sin()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_lock_that_is_sometimes_held(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
