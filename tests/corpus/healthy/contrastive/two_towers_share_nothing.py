"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def two_towers_share_nothing():
    a, b = nn.Linear(8, 8), nn.Linear(8, 8)
    opt = torch.optim.Adam([*a.parameters(), *b.parameters()], 1e-2)
    for _ in range(40):
        x = torch.randn(16, 8)
        loss = -F.cosine_similarity(a(x), b(x.flip(1))).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    two_towers_share_nothing()
