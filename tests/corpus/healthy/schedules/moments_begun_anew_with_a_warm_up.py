"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def moments_begun_anew_with_a_warm_up():
    """Every hundred steps Adam forgets what it knew, and the rate climbs again from next to nothing, as in training by parts."""
    net = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4))
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    turn = torch.randn(20, 4)
    for i in range(300):
        if i and i % 100 == 0:
            opt.state.clear()
        for group in opt.param_groups:
            group["lr"] = 2e-3 * min(1.0, (i % 100 + 1) / 20)
        x = torch.randn(64, 20)
        loss = F.cross_entropy(net(x), (x @ turn).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    moments_begun_anew_with_a_warm_up()
