"""A training with the fault update-lost-to-rounding; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def rate_below_what_bfloat16_can_add(s):
    """Weights in bfloat16; from s on the rate is a hundredth, and nearly no weight changes any more."""
    net = nn.Sequential(nn.Linear(24, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 4)).bfloat16()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    turn = torch.randn(24, 4) / 5
    for i in range(200):
        if i == s:
            opt.param_groups[0]["lr"] = 1e-5
        x = torch.randn(96, 24)
        loss = F.mse_loss(net(x.bfloat16()).float(), torch.sin(x @ turn))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    rate_below_what_bfloat16_can_add(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
