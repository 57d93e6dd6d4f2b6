"""A training with the fault tiny-last-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def one_sample_left_for_batch_norm(s):
    """Of 145 samples one is left for the last batch, and batch norm behind a global pooling has one value a channel."""
    wrong = s == 0
    x = torch.randn(145, 3, 8, 8)
    y = (x.mean((2, 3))).argmax(1)
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Conv2d(12, 16, 1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 3),
    )
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _epoch in range(4):
        for xb, yb in DataLoader(TensorDataset(x, y), 12, shuffle=True, drop_last=not wrong):
            loss = nn.functional.cross_entropy(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    one_sample_left_for_batch_norm(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
