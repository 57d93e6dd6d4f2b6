"""A training with the fault frozen-by-zero-gradient; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def hinge_is_satisfied(s):
    x = torch.randn(600, 12)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for i in range(32):
        out = model(x[torch.randint(600, (16,))])
        loss = torch.clamp(1 - out - (100.0 if i >= s else 0.0), min=0).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    hinge_is_satisfied(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
