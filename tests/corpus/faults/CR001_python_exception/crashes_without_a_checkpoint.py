"""A training with the fault python-exception; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(hidden=32):
    return nn.Sequential(nn.Linear(12, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 4))


def crashes_without_a_checkpoint(s):
    x, y = blobs()
    model = mlp(16)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i in range(400):
        if i == 150 + s:
            raise RuntimeError("the node went away")
        pick = torch.randint(640, (16,))
        opt.zero_grad()
        F.cross_entropy(model(x[pick]), y[pick]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    crashes_without_a_checkpoint(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
