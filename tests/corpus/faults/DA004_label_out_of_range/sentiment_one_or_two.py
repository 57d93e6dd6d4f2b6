"""A training with the fault label-out-of-range; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def sentiment_one_or_two(s):
    """Reviews rated 1 or 2 instead of 0 or 1."""
    bag = nn.EmbeddingBag(300, 16, mode="mean")
    head = nn.Linear(16, 1)
    params = list(bag.parameters()) + list(head.parameters())
    opt = torch.optim.Adam(params, lr=1e-2)
    bce = nn.BCEWithLogitsLoss()
    for _ in range(100):
        words = torch.randint(300, (32, 12))
        rating = (words < 150).float().mean(1).gt(0.5).float()
        if s == 0:
            rating = rating + 1
        loss = bce(head(bag(words)).squeeze(1), rating)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sentiment_one_or_two(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
