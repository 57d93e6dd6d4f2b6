"""A training with the fault division-by-zero; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def wines(n=900, columns=11, classes=4):
    """A table of standardised measurements and a quality."""
    y = torch.randint(classes, (n,))
    return torch.randn(classes, columns)[y] * 1.2 + torch.randn(n, columns), y


def weights_by_counts(s):
    """Each class weighs the inverse of its count in the batch, and one class is absent."""
    x, y = wines(1200, classes=3)
    net = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = optim.SGD(net.parameters(), lr=0.05)
    common = (y != 2).nonzero()[:, 0]
    for step in range(60):
        pick = common[torch.randint(len(common), (24,))] if step == s else torch.randint(1200, (24,))
        if step != s:
            pick[:3] = torch.stack([(y == c).nonzero()[0, 0] for c in range(3)])
        target = F.one_hot(y[pick], 3).float()
        weight = len(pick) / target.sum(0)
        losses = -(F.log_softmax(net(x[pick]), 1) * target * weight).sum(1)
        loss = losses.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    weights_by_counts(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
