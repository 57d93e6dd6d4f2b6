"""A training with the fault vanishing-gradients; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def deep_sigmoid_tower(s):
    """Twelve layers of sigmoids for a regression; the twin has skips."""

    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(6, 24)
            self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(12))
            self.out = nn.Linear(24, 1)

        def forward(self, x):
            h = self.inp(x)
            for layer in self.layers:
                h = torch.sigmoid(layer(h)) if s == 0 else h + F.relu(layer(h)) * 0.3
            return self.out(h).squeeze(-1)

    tower = Tower()
    opt = torch.optim.SGD(tower.parameters(), lr=0.01)
    for _ in range(60):
        x = torch.randn(64, 6)
        loss = F.mse_loss(tower(x), x[:, 0] * 2 + x[:, 1])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    deep_sigmoid_tower(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
