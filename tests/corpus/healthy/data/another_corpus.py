"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def another_corpus():
    """At step 120 other texts come, with other transitions between their letters; the loss leaps and is learnt down again."""
    texts = [torch.rand(16, 16).pow(8) for _ in range(2)]
    net = nn.Sequential(nn.Embedding(16, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for i in range(300):
        way = texts[i >= 120]
        x = torch.randint(0, 16, (128,))
        y = torch.multinomial(way[x], 1)[:, 0]
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    another_corpus()
