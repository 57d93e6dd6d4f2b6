"""A training with the fault weight-decay-dominates; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def decay_as_strong_as_the_rate(s):
    """Decay as strong as the rate."""
    fa = s if s < 1000 else -1
    wd = 30.0 if fa >= 0 else 1e-2
    cnn = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 4),
    )
    opt = torch.optim.AdamW(cnn.parameters(), lr=2e-3, weight_decay=wd)
    patterns = torch.randn(4, 1, 10, 10)
    for _step in range(120):
        y = torch.randint(4, (24,))
        x = patterns[y] + 0.7 * torch.randn(24, 1, 10, 10)
        opt.zero_grad()
        loss = nn.functional.cross_entropy(cnn(x), y)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    decay_as_strong_as_the_rate(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
