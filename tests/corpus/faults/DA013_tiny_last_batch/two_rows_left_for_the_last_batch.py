"""A training with the fault tiny-last-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def two_rows_left_for_the_last_batch(s):
    """The last batch of an epoch holds two samples: with batch norm its gradient is many times the others'."""
    wrong = s == 0
    x = torch.randn(802, 1, 8, 8)
    y = x[:, 0, :2].sum((1, 2))
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 1)
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    for _epoch in range(10):
        for xb, yb in DataLoader(TensorDataset(x, y), 32, shuffle=True, drop_last=not wrong):
            loss = nn.functional.mse_loss(net(xb)[:, 0], yb)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    two_rows_left_for_the_last_batch(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
