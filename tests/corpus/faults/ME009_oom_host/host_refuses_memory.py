"""A training with the fault oom-host; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn


def host_refuses_memory(s):
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(30):
        x = torch.randn(8, 12)
        opt.zero_grad()
        out = model(x)
        if i == s:
            out = out + torch.zeros(2**46).sum()
        out.square().mean().backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    host_refuses_memory(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
