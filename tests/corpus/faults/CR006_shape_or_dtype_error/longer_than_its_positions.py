"""A training with the fault shape-or-dtype-error; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def longer_than_its_positions(s):
    """A learnt table of twenty positions meets a sentence of twenty-two."""

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.where = nn.Embedding(50, 16), nn.Parameter(torch.randn(20, 16) * 0.1)
            self.out = nn.Linear(16, 3)

        def forward(self, ids):
            return self.out((self.words(ids) + self.where[: ids.shape[1]]).mean(1))

    model = Reader()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(60):
        ids = torch.randint(50, (12, 22 if step == s else 8 + step % 12))
        loss = F.cross_entropy(model(ids), ids[:, 0] % 3)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    longer_than_its_positions(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
