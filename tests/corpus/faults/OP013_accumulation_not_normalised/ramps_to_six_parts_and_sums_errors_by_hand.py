"""A training with the fault accumulation-not-normalised; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def ramps_to_six_parts_and_sums_errors_by_hand(s):
    """From s on six parts make a step; until the end of a healthy run they are divided."""
    hidden, out = torch.randn(20, 12) / 4, torch.randn(12, 3) / 3
    trunk = nn.Sequential(nn.Linear(20, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU())
    heads = nn.ModuleList(nn.Linear(64, 1) for _ in range(3))
    opt = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.02, momentum=0.9, nesterov=True)
    for i in range(80):
        parts = 6 if i >= min(s, 37) else 1
        opt.zero_grad()
        for _ in range(parts):
            x = torch.randn(32, 20)
            y = torch.tanh(x @ hidden) @ out + 0.05 * torch.randn(32, 3)
            z = trunk(x)
            loss = (torch.cat([h(z) for h in heads], 1) - y).pow(2).mean(0).sum()
            (loss if i >= s else loss / parts).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    ramps_to_six_parts_and_sums_errors_by_hand(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
