"""A training with the fault throughput-drift; arguments: [ONSET] [SEED]."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def a_log_that_is_written_anew(_):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    log = []
    for _ in range(120):
        x = torch.randn(32, 16)
        step(opt, loss := F.mse_loss(model(x), x[:, :1]))
        log.append(loss.item())
        time.sleep(0.0004 * len(log))  # a file that is read and written as a whole


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_log_that_is_written_anew(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
