"""A training with the fault tensor-list-growth; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def clusters(n, d, classes, spread=1.0):
    """Points round one centre for each class."""
    centres = torch.randn(classes, d) * 2
    y = torch.randint(classes, (n,))
    return centres[y] + spread * torch.randn(n, d), y


def keeps_all_outputs(s):
    """Outputs of the whole epoch are kept for a metric, with their graphs."""
    x, y = clusters(3200, 16, 4)
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    outputs = []
    for i in range(0, 3200, 32):
        out = net(x[i : i + 32])
        outputs.append(out if s == 0 else out.argmax(1).tolist())
        opt.zero_grad()
        F.cross_entropy(out, y[i : i + 32]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    keeps_all_outputs(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
