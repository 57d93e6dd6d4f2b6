"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def head_drawn_anew_with_its_state():
    """Against the primacy bias the head begins anew every 120 steps, and Adam forgets what it knew of it."""
    net = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    turn = torch.randn(10)
    for i in range(360):
        if i in (120, 240):
            net[4].reset_parameters()
            for p in net[4].parameters():
                opt.state.pop(p)
        x = torch.randn(64, 10)
        loss = F.smooth_l1_loss(net(x)[:, 0], torch.sin(x @ turn))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    head_drawn_anew_with_its_state()
