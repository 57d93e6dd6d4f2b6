"""A training with the fault unregistered-parameters; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def wines(n=900, columns=11, classes=4):
    """A table of standardised measurements and a quality."""
    y = torch.randint(classes, (n,))
    return torch.randn(classes, columns)[y] * 1.2 + torch.randn(n, columns), y


class Branches(nn.Module):
    """A head for each task, kept in a plain dictionary."""

    def __init__(self, plain):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(11, 32), nn.ReLU())
        heads = {"quality": nn.Linear(32, 4), "colour": nn.Linear(32, 2)}
        self.heads = heads if plain else nn.ModuleDict(heads)

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


def heads_in_a_plain_dict(s):
    x, y = wines(640)
    model = Branches(plain=s == 0)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _epoch in range(2):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True):
            out = model(a)
            loss = F.cross_entropy(out["quality"], b) + F.cross_entropy(out["colour"], b % 2)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    heads_in_a_plain_dict(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
