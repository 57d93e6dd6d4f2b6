"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def hot_transformer(s):
    """A small encoder with a learning rate from another recipe."""
    emb = nn.Embedding(20, 32)
    enc = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    head = nn.Linear(32, 20)
    model = nn.Sequential(emb, enc, head)
    opt = optim.SGD(model.parameters(), lr=3.0 if s == 0 else 0.05, momentum=0.9)
    for _ in range(60):
        x = torch.randint(20, (16, 8))
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flip(1).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    hot_transformer(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
