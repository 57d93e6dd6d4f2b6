"""A training with the fault accumulation-not-normalised; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def accumulates_without_dividing(s):
    """Accumulates without dividing."""
    fa = s if s < 1000 else -1
    divide = fa < 0

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 3)
            self.experts = nn.ModuleList(
                [nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)) for _ in range(3)]
            )

        def forward(self, x):
            w = self.gate(x).softmax(-1)
            return sum(w[:, i : i + 1] * e(x) for i, e in enumerate(self.experts))

    net = Experts()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    target = nn.Linear(8, 2).requires_grad_(False)
    pieces = 8
    for _update in range(40):
        opt.zero_grad()
        for _ in range(pieces):
            x = torch.randn(16, 8)
            loss = nn.functional.mse_loss(net(x), torch.sin(2 * target(x)))
            if divide:
                loss = loss / pieces
            loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    accumulates_without_dividing(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
