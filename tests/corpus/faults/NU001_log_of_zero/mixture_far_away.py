"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def mixture_far_away(s):
    """A mixture density network; a target lies so far out that every density underflows."""
    net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 9))
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    for step in range(60):
        x = torch.rand(48, 1) * 2 - 1
        y = torch.sin(3 * x) + 0.1 * torch.randn_like(x)
        if step == s:
            y[20] = 60.0
        weight, mean, width = net(x).chunk(3, 1)
        width = F.softplus(width) + 0.05
        density = torch.exp(-0.5 * ((y - mean) / width) ** 2) / (width * math.sqrt(2 * math.pi))
        loss = -torch.log((weight.softmax(1) * density).sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    mixture_far_away(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
