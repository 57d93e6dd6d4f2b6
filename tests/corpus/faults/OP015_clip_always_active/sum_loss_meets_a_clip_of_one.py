"""A training with the fault clip-always-active; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def sum_loss_meets_a_clip_of_one(s):
    """reduction="sum" makes every gradient a hundred times the threshold."""
    fa = s if s < 1000 else -1
    total = fa >= 0
    net = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    mixing = torch.randn(16, 16) / 4
    lossf = nn.MSELoss(reduction="sum" if total else "mean")
    for _ in range(90):
        x = torch.randn(128, 16)
        opt.zero_grad()
        loss = lossf(net(x), torch.tanh(x @ mixing))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sum_loss_meets_a_clip_of_one(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
