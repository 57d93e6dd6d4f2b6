"""A training with the fault shuffled-labels; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Mixer(nn.Module):
    """Blocks of two norms each, whose scales of one outweigh all other weights."""

    def __init__(self, tokens=8, width=32):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.mix = nn.ModuleList(nn.Linear(tokens, tokens) for _ in range(2))
        self.wide = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.head = nn.Linear(width, 6)

    def forward(self, x):
        for i in range(2):
            x = x + F.gelu(self.mix[i](self.norms[2 * i](x).transpose(1, 2))).transpose(1, 2)
            x = x + F.gelu(self.wide[i](self.norms[2 * i + 1](x)))
        return self.head(x.mean(1))


def pictures_joined_by_their_place(s):
    """File names sort as texts, the table of classes by number: from the beginning, or not at all."""
    labels = torch.randint(6, (4000,))
    x = torch.randn(4000, 8, 32) + 0.7 * torch.randn(6, 8, 32)[labels]
    names = sorted(range(4000), key=str) if s == 0 else range(4000)
    x = x[list(names)]
    model = Mixer()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for i in range(240):
        if i % 62 == 0:
            order = torch.randperm(4000)
        rows = order[i % 62 * 64 : i % 62 * 64 + 64]
        loss = F.cross_entropy(model(x[rows]), labels[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    pictures_joined_by_their_place(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
