"""A training with the fault broadcast-loss; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def error_by_hand(s):
    """Squared error written out, with targets of shape (B,) and outputs of shape (B, 1)."""
    w = torch.randn(7)
    net = nn.Sequential(nn.Linear(7, 40), nn.ReLU(), nn.Linear(40, 1))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(90):
        x = torch.randn(48, 7)
        y = x @ w + 0.05 * torch.randn(48)
        prediction = net(x)
        if s != 0:
            prediction = prediction.squeeze(1)
        loss = ((prediction - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    error_by_hand(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
