"""A training with the fault lr-too-high; arguments: [ONSET] [SEED]."""

import inspect
import sys
import textwrap

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


class CharModel(nn.Module):
    """Predicts the next letter from the state of a GRU."""

    def __init__(self, letters, width=48):
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, letters)

    def forward(self, ids, state=None):
        h, state = self.gru(self.embed(ids), state)
        return self.out(h), state


def letters():
    words = inspect.getsource(textwrap)
    table = {c: i for i, c in enumerate(sorted(set(words)))}
    return torch.tensor([table[c] for c in words]), len(table)


def chunk(data, n=16, length=24):
    at = torch.randint(len(data) - length - 1, (n, 1)) + torch.arange(length + 1)
    return data[at][:, :-1], data[at][:, 1:]


def adam_with_a_rate_of_one_half(s):
    """Adam with lr=0.5 on a language model of letters."""
    data, n = letters()
    model = CharModel(n)
    opt = optim.Adam(model.parameters(), lr=0.5 if s == 0 else 3e-3)
    for _ in range(80):
        x, y = chunk(data)
        loss = F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    adam_with_a_rate_of_one_half(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
