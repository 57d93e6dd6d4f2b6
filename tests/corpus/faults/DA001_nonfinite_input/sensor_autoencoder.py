"""A training with the fault nonfinite-input; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def sensor_autoencoder(s):
    """Log of a sensor reading; one sensor reads zero."""
    readings = torch.rand(4000, 24) * 5 + 0.5
    net = nn.Sequential(nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 4), nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 24))
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    mse = nn.MSELoss()
    for step in range(60):
        raw = readings[step * 64 : step * 64 + 64].clone()
        if step == s:
            raw[17, 3] = 0.0
        x = torch.log(raw)
        opt.zero_grad()
        mse(net(x), x).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sensor_autoencoder(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
