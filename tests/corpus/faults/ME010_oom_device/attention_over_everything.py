"""A training with the fault oom-device; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn, optim

torch.set_num_threads(1)


def attention_over_everything(s):
    """All pairs of a very long sequence."""
    q, k = nn.Linear(8, 8), nn.Linear(8, 8)
    opt = optim.Adam([*q.parameters(), *k.parameters()], lr=1e-3)
    for step in range(60):
        n = 40_000_000 if step == s else 64
        x = torch.randn(1, 8).expand(n, 8) if step == s else torch.randn(n, 8)
        q_small, k_small = (q(x), k(x)) if step != s else (x, x)
        score = q_small @ k_small.T
        loss = (score.softmax(-1) - torch.eye(n)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    attention_over_everything(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
