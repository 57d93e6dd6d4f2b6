"""A training with the fault padding-mask-bug; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


class Learner:
    """Model, optimizer and loss in one object, as in many course notes."""

    def __init__(self, model, lr=2e-3, kind=optim.Adam, loss=F.cross_entropy, **settings):
        self.model, self.loss = model, loss
        self.opt = kind(model.parameters(), lr=lr, **settings)

    def step(self, x, y):
        self.opt.zero_grad()
        loss = self.loss(self.model(x), y)
        loss.backward()
        self.opt.step()
        return loss.item()


class Reader(nn.Module):
    """Attention written out, for sentences that are padded with zeros."""

    def __init__(self, wrong):
        super().__init__()
        self.embed = nn.Embedding(40, 24)
        self.q, self.k, self.v = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 24)
        self.out = nn.Linear(24, 2)
        self.wrong = wrong

    def forward(self, ids):
        h = self.embed(ids)
        padding = (ids == 0)[:, None, :]
        mask = padding if self.wrong else ~padding  # scaled_dot_product_attention wants True where it may look
        h = (
            h
            + F.scaled_dot_product_attention(self.q(h)[:, None], self.k(h)[:, None], self.v(h)[:, None], mask[:, None])[
                :, 0
            ]
        )
        return self.out(h[:, 0])


def true_means_masked(s):
    """The mask of one library in the function of another."""
    model = Reader(wrong=s == 0)
    run = Learner(model, lr=1e-3)
    for _ in range(50):
        ids = torch.randint(1, 40, (16, 10))
        for row, n in enumerate(torch.randint(3, 10, (16,)).tolist()):
            ids[row, n:] = 0
        run.step(ids, (ids == 5).any(1).long())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    true_means_masked(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
