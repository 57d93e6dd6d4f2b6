"""A training with the fault masked-branch-nan-gradient; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def where_around_log(s):
    """`where` picks the safe branch forward, backward goes through both."""
    net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for step in range(60):
        x = torch.rand(32, 5) + 0.1
        gate = torch.ones(32, 1)
        if step >= s:
            gate[11] = 0
        rate = F.softplus(net(x)) * gate
        y = x.sum(1, keepdim=True)
        entropy = torch.where(rate > 0, rate * torch.log(rate), torch.zeros_like(rate))
        loss = F.mse_loss(rate, y * gate) + 0.01 * entropy.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    where_around_log(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
