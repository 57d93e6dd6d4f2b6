"""A training with the fault constant-input; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def sensors_freeze(s):
    """A forecaster whose sensors send their last reading again and again, while what is to be foretold goes on."""
    net = nn.Sequential(
        nn.Conv1d(3, 24, 3), nn.ReLU(), nn.Conv1d(24, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(480, 1)
    )
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    last = torch.zeros(32, 3, 24)
    for step in range(100):
        start = torch.rand(32, 1, 1) * 6
        t = start + torch.arange(25) * 0.3
        series = torch.cat([t.sin(), t.cos(), (2 * t).sin()], 1) + 0.05 * torch.randn(32, 3, 25)
        x, y = series[..., :24], series[:, 0, 24:]
        last = last if step > s else x
        loss = nn.functional.mse_loss(net(last), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sensors_freeze(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
