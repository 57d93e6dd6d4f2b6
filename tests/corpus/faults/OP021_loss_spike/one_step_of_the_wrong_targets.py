"""A training with the fault loss-spike; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def one_step_of_the_wrong_targets(s):
    """One step of the wrong targets."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(nn.Linear(6, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 40), nn.GELU(), nn.Linear(40, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    v = torch.randn(6, 1)
    for step in range(120):
        x = torch.randn(48, 6)
        y = torch.sin(x @ v)
        if step == fa:
            y = y + 40  # the units of one shard
        loss = nn.functional.huber_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    one_step_of_the_wrong_targets(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
