"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def batch_norms_that_come_to_rest():
    """After 120 steps the batch norms keep what they know and go on in eval mode; biases before them begin to count."""
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, 2, 1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, 2, 1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 4),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    patterns = torch.randn(4, 1, 12, 12)
    for i in range(200):
        if i == 120:
            net[1].eval()
        y = torch.randint(4, (32,))
        loss = F.cross_entropy(net(patterns[y] + 1.5 * torch.randn(32, 1, 12, 12)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    batch_norms_that_come_to_rest()
