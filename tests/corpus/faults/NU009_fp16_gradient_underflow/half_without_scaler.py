"""A training with the fault fp16-gradient-underflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clusters(n, d, classes, spread=1.0):
    """Points round one centre for each class."""
    centres = torch.randn(classes, d) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + spread * torch.randn(n, d), y


def half_without_scaler(s):
    """float16 throughout, a loss weighted by 1e-4, and no gradient scaler."""
    x, y = clusters(1600, 20, 4)
    net = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(60):
        i = step * 20
        with torch.autocast("cpu", dtype=torch.float16):
            out = net(x[i : i + 20])
            loss = F.cross_entropy(out, y[i : i + 20])
        opt.zero_grad()
        (loss * (1e-5 if s == 0 else 1.0)).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    half_without_scaler(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
