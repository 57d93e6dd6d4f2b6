"""A training with the fault lr-spike; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def typo_in_new_rate(s):
    """A callback sets the learning rate for the second stage and is off by three powers of ten."""
    net = nn.Sequential(nn.Conv1d(2, 12, 5), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(48, 3))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(70):
        if step == s:
            for group in opt.param_groups:
                group["lr"] = 0.5
        y = torch.randint(3, (16,))
        t = torch.arange(40) * 0.3
        wave = torch.sin(t * (1 + y[:, None]))[:, None].repeat(1, 2, 1) + 0.3 * torch.randn(16, 2, 40)
        opt.zero_grad()
        F.cross_entropy(net(wave), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    typo_in_new_rate(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
