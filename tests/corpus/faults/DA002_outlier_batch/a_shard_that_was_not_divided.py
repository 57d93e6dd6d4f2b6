"""A training with the fault outlier-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def a_shard_that_was_not_divided(s):
    """Pictures of one batch come as 0 to 255 instead of 0 to 1; the network is so sure of them that the loss is exactly 0."""
    onset = s
    protos = torch.rand(10, 1, 12, 12)
    y = torch.randint(0, 10, (1600,))
    x = (protos[y] + 0.2 * torch.rand(1600, 1, 12, 12)).clamp(0, 1)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * 9, 10),
    )
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    step = 0
    for _epoch in range(3):
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True):
            if step == onset:
                xb = xb * 255  # this shard was not divided
            loss = F.cross_entropy(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_shard_that_was_not_divided(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
