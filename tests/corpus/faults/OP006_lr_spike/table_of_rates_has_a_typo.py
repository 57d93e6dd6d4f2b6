"""A training with the fault lr-spike; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def table_of_rates_has_a_typo(s):
    """Table of rates has a typo."""
    fa = s if s < 1000 else -1

    class Tabular(nn.Module):
        def __init__(self):
            super().__init__()
            self.cats = nn.ModuleList([nn.Embedding(10, 4) for _ in range(3)])
            self.bn = nn.BatchNorm1d(5)
            self.mlp = nn.Sequential(nn.Linear(17, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))

        def forward(self, c, n):
            e = [emb(c[:, i]) for i, emb in enumerate(self.cats)]
            return self.mlp(torch.cat([*e, self.bn(n)], 1))[:, 0]

    model = Tabular()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    wc, wn = torch.randn(3, 10), torch.randn(5)

    def rate(step):
        base = 3e-3 * 0.995**step
        return base * 100 if step == fa else base

    for step in range(110):
        for g in opt.param_groups:
            g["lr"] = rate(step)
        c, n = torch.randint(10, (64, 3)), torch.randn(64, 5)
        y = sum(wc[i][c[:, i]] for i in range(3)) + n @ wn
        loss = (model(c, n) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    table_of_rates_has_a_typo(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
