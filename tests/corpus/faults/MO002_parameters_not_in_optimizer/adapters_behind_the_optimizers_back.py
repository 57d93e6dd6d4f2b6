"""A training with the fault parameters-not-in-optimizer; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(0.1 * torch.randn(4, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, 4))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def adapters_behind_the_optimizers_back(s):
    """Adapters are put into a frozen encoder after the optimizer was made: it holds the head alone."""
    fa = s if s < 1000 else -1
    body = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU()).requires_grad_(False)
    net = nn.Sequential(body, nn.Linear(48, 4))
    truth = torch.randn(16, 4)

    def optimizer():
        return torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=5e-3)

    early = optimizer() if fa >= 0 else None
    body[0], body[2] = Adapted(body[0]), Adapted(body[2])
    opt = early or optimizer()
    for _ in range(70):
        x = torch.randn(48, 16)
        loss = nn.functional.cross_entropy(net(x), (x @ truth).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    adapters_behind_the_optimizers_back(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
