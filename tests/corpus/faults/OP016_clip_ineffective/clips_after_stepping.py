"""A training with the fault clip-ineffective; arguments: [ONSET] [SEED]."""

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


def clips_after_stepping(s):
    """Gradients are clipped after the step has used them."""
    data, n = letters()
    model = CharModel(n)
    opt = optim.SGD(model.parameters(), lr=1.0)
    for _ in range(80):
        x, y = chunk(data)
        opt.zero_grad()
        F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten()).backward()
        if s == 0:
            opt.step()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clips_after_stepping(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
