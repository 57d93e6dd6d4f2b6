"""A training with the fault periodic-stall; arguments: [ONSET] [SEED]."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def counts_everything_every_nine_steps(_):
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i in range(100):
        x = torch.randn(32, 16)
        step(opt, F.mse_loss(model(x), x[:, :1].cos()))
        if i % 9 == 8:  # a summary of all that was logged so far
            end = time.perf_counter() + 0.15
            while time.perf_counter() < end:
                sum(range(1000))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    counts_everything_every_nine_steps(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
