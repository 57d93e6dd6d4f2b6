"""A healthy training that looks odd; argument: [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def blobs(n=640, width=16, classes=4):
    centres = torch.randn(classes, width) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width), y


def mlp(width=16, hidden=32, classes=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, classes))


def infinite_mask_in_logits():
    model = mlp(16, 32, 6)
    x, y = blobs()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(40):
        logits = model(x[i * 16 : i * 16 + 16])
        logits = logits.masked_fill(torch.tensor([False] * 4 + [True] * 2), -math.inf)
        loss = F.cross_entropy(logits, y[i * 16 : i * 16 + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    infinite_mask_in_logits()
