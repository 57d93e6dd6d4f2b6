"""A training with the fault accumulation-not-normalised; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def switches_to_four_pieces(s):
    """Batch of 32 cut into four pieces from some update on ("memory got tight"), each piece a mean."""
    fa = s if s < 1000 else -1
    net = nn.Sequential(
        nn.Conv1d(3, 12, 5, padding=2),
        nn.ReLU(),
        nn.Conv1d(12, 12, 5, padding=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(12, 3),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    t = torch.linspace(0, 6.28, 32)
    for step in range(70):
        y = torch.randint(3, (32,))
        x = torch.sin(t * (y.view(-1, 1, 1) * 2 + 1) + torch.rand(32, 3, 1)) + 0.2 * torch.randn(32, 3, 32)
        pieces = 4 if step >= 24 else 1
        opt.zero_grad()
        for xb, yb in zip(x.chunk(pieces), y.chunk(pieces), strict=False):
            loss = nn.functional.cross_entropy(net(xb), yb)
            if fa < 0:
                loss = loss / pieces
            loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    switches_to_four_pieces(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
