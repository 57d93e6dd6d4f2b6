"""A training with the fault excessive-dropout; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def share_kept_taken_for_dropped(steps=120):
    """The share that is to be kept, as another framework calls it, is given to torch as the share that is dropped."""
    torch.manual_seed(1)
    x = torch.randn(800, 24)
    y = (x[:, :3].sum(1) > 0).long() + 2 * (x[:, 3] > 0).long()
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    layers = [
        nn.Linear(24, 48),
        nn.ReLU(),
        nn.Dropout(0.95),
        nn.Linear(48, 24),
        nn.ReLU(),
        nn.Dropout(0.95),
        nn.Linear(24, 4),
    ]
    model = nn.Sequential(*layers)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        at = torch.randint(0, len(x), (64,))
        optimizer.zero_grad()
        F.cross_entropy(model(x[at]), y[at]).backward()
        optimizer.step()


if __name__ == "__main__":
    share_kept_taken_for_dropped()
