"""A training with the fault recompilation-storm; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def lengths_that_are_compiled_one_by_one(_):
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    forward = torch.compile(model, backend="eager", dynamic=False)
    torch._dynamo.config.recompile_limit = 64
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i in range(40):
        x = torch.randn(4 + i, 8)
        step(opt, F.mse_loss(forward(x), x[:, :1].sin()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    lengths_that_are_compiled_one_by_one(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
