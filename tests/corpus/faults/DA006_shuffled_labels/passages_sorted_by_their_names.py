"""A training with the fault shuffled-labels; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(400, 48, mode="mean")
        self.proj = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x):
        return F.normalize(self.proj(self.bag(x)), dim=-1)


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.passage = Tower(), Tower()
        self.log_scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, q, p):
        return self.query(q) @ self.passage(p).T * self.log_scale.exp()


def passages_sorted_by_their_names(s):
    """Queries stand in the order of their numbers, passages in that of their names, in which 10 comes before 2."""
    topics = torch.softmax(torch.randn(40, 400) * 2.5, -1)
    of = torch.randint(40, (3000,))
    queries, passages = (torch.multinomial(topics[of], 12, replacement=True) for _ in range(2))
    passages = passages[sorted(range(3000), key=str)]
    model = Towers()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(150):
        idx = torch.randperm(3000)[:32]
        logits = model(queries[idx], passages[idx])
        target = torch.arange(32)
        loss = 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    passages_sorted_by_their_names(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
