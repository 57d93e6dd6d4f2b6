"""A training with the fault lr-too-low; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Tagger(nn.Module):
    """Labels every token of a sequence."""

    def __init__(self, vocabulary=20, width=16, tags=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, tags)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


def sequences(n=512, length=12):
    x = torch.randint(20, (n, length))
    return x, (x + x.roll(1, 1)) % 5


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def rate_falls_by_a_typo(s):
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for i, (a, b) in zip(range(s + 20), batches(*sequences()), strict=False):
        if i == s:
            for group in opt.param_groups:
                group["lr"] *= 1e-5
        opt.zero_grad()
        F.cross_entropy(model(a).flatten(0, 1), b.flatten()).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    rate_falls_by_a_typo(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
