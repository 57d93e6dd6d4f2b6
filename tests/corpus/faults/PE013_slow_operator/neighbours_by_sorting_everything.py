"""A training with the fault slow-operator; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


def step(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


def neighbours_by_sorting_everything(_):
    """A point cloud network that sorts all distances where it wants the nearest four."""

    class Neighbours(nn.Module):
        def forward(self, x):
            order = torch.cdist(x, x).sort(-1).indices[..., :4]
            return torch.stack([x[b][order[b]].mean(1) for b in range(len(x))])

    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), Neighbours(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(20):
        x = torch.randn(2, 512, 3)
        step(opt, F.cross_entropy(model(x).mean(1), (x.mean((1, 2)) > 0).long()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    neighbours_by_sorting_everything(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
