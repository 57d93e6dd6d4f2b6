"""A training with the fault zero-lr; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def linear_decay_ends_at_half(s):
    """Linear decay ends at half."""
    fa = s if s < 1000 else -1
    bad = fa >= 0
    x = torch.rand(320, 4)
    y = (x * torch.tensor([1.0, -2, 3, 0.5])).sum(1, keepdim=True).sin()
    loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
    net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.0, total_iters=60 if bad else 121)
    for _epoch in range(6):
        for a, b in loader:
            opt.zero_grad()
            nn.functional.mse_loss(net(a), b).backward()
            opt.step()
            sched.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    linear_decay_ends_at_half(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
