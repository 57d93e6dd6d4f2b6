"""A training with the fault outlier-batch; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def pictures_as_bytes_behind_batch_norm(s):
    """One batch misses its division by 255; batch norm hides it from the loss, not from its running statistics."""
    patterns = torch.rand(6, 1, 12, 12)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1, bias=False),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 6),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for i in range(s + 30 if s < 1000 else 80):
        y = torch.randint(6, (32,))
        x = ((patterns[y] + 0.2 * torch.randn(32, 1, 12, 12)).clamp(0, 1) * 255).round()
        if i != s:
            x = x / 255
        loss = F.cross_entropy(net(2 * x - 1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    pictures_as_bytes_behind_batch_norm(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
