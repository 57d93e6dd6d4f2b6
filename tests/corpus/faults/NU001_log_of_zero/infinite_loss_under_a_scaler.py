"""A training with the fault log-of-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn, optim

torch.set_num_threads(1)


def infinite_loss_under_a_scaler(s):
    """A target of zero under a logarithm makes every loss infinite; the scaler halves and halves."""
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1), nn.Softplus())
    opt = optim.Adam(net.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    for step in range(60):
        x = torch.randn(32, 6)
        y = x[:, :1].exp()
        if step >= s:
            y[0] = 0.0
        with torch.autocast("cpu", torch.bfloat16):
            out = net(x)
        loss = ((out.float() + 1e-3).log() - y.log()).square().mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    infinite_loss_under_a_scaler(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
