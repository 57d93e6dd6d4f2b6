"""A training with the fault broken-graph; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def wines(n=900, columns=11, classes=4):
    """A table of standardised measurements and a quality."""
    y = torch.randint(classes, (n,))
    return torch.randn(classes, columns)[y] * 1.2 + torch.randn(n, columns), y


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 16))
        self.compare = nn.Sequential(nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 1))
        self.cache = {}

    def forward(self, a, b, cached=False):
        u, v = self.tower(a), self.tower(b)
        if cached:
            u, v = torch.tensor(u.tolist()), torch.tensor(v.tolist())
        return self.compare(torch.cat([(u - v).abs(), u * v], 1)).squeeze(1)


def embeddings_through_a_cache(s):
    """To save time embeddings go through a cache of plain lists: no gradient comes back to the towers."""
    x, y = wines(500)
    model = Siamese()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for step in range(60):
        i, j = torch.randint(500, (2, 32))
        loss = F.binary_cross_entropy_with_logits(model(x[i], x[j], step >= s), (y[i] == y[j]).float())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    embeddings_through_a_cache(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
