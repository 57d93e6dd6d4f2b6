"""A training with the fault tensor-list-growth; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def features_kept_for_a_plot(s):
    """Outputs of every batch are kept for a picture that is drawn at the end, graphs cut but tensors alive."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1))
    head = nn.Linear(16, 4)
    opt = optim.SGD([*model.parameters(), *head.parameters()], lr=0.02)
    kept = []
    for _ in range(60):
        y = torch.randint(4, (16,))
        x = torch.randn(16, 3, 16, 16) + y[:, None, None, None] / 2
        h = model(x)
        opt.zero_grad()
        F.cross_entropy(head(h.mean((2, 3))), y).backward()
        opt.step()
        if s == 0:
            kept.append(h.detach())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    features_kept_for_a_plot(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
