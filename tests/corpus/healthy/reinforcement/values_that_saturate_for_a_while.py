"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def values_that_saturate_for_a_while():
    """A critic below large returns: half of its units go to the ends of their tanh and come back as the returns settle."""
    net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    turn = torch.randn(6)
    for i in range(400):
        x = torch.randn(64, 6) * (6.0 if 120 <= i < 200 else 1.0)
        loss = F.mse_loss(net(x)[:, 0], (2 + 8 * min(i, 200) / 200) * torch.tanh(x @ turn))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    values_that_saturate_for_a_while()
