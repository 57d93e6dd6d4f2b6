"""A training with the fault broadcast-loss; arguments: [ONSET] [SEED]."""

import sys
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def missing_squeeze(s):
    """Regression with outputs (B, 1) and targets (B,)."""
    warnings.simplefilter("ignore")
    w = torch.randn(9)
    x = torch.randn(1280, 9)
    y = x @ w
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    net = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.RMSprop(net.parameters(), lr=3e-3)
    loss_fn = nn.HuberLoss()
    for _ in range(3):
        for xb, yb in loader:
            out = net(xb)
            if s != 0:
                out = out.squeeze(-1)
            loss = loss_fn(out, yb)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    missing_squeeze(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
