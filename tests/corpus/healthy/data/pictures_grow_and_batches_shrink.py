"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def pictures_grow_and_batches_shrink():
    """Pictures grow and batches shrink."""
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 3),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    tone = torch.randn(3, 3, 1, 1)
    for size, batch, steps in ((8, 64, 40), (12, 32, 40), (16, 16, 40)):
        for _ in range(steps):
            y = torch.randint(3, (batch,))
            x = tone[y] + torch.randn(batch, 3, size, size)
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    pictures_grow_and_batches_shrink()
