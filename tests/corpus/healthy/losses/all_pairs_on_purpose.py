"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def all_pairs_on_purpose():
    """Ranking loss over all pairs: (B,1) minus (1,B) on purpose."""
    net = nn.Sequential(nn.Linear(5, 48), nn.ReLU(), nn.Linear(48, 1))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    for _i in range(100):
        x = torch.randn(32, 5)
        y = x.sum(1)
        s = net(x)
        loss = nn.functional.softplus(-(s - s.T) * torch.sign(y[:, None] - y[None])).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    all_pairs_on_purpose()
