"""A training with the fault shuffled-labels; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4, spread=1.0):
    centres = torch.randn(classes, width) * 3
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width) * spread, y


def mlp(width=12, hidden=24, classes=4):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def labels_shuffled_from_a_step_on(s):
    x, y = blobs(spread=0.5)
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for i in range(s + 40):
        at = torch.randint(len(x), (32,))
        b = y[at]
        if i >= s:
            b = b[torch.randperm(len(b))]
        opt.zero_grad()
        F.cross_entropy(model(x[at]), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    labels_shuffled_from_a_step_on(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
