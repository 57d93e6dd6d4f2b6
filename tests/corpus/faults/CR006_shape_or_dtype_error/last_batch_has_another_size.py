"""A training with the fault shape-or-dtype-error; arguments: [ONSET] [SEED]."""

import inspect
import sys
import textwrap

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

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


def last_batch_has_another_size(s):
    """A state made for the full batch size meets the last, smaller batch of the epoch."""
    data, n = letters()
    rows = data[: 45 * 25].view(45, 25)
    model = CharModel(n)
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(4):
        state = None
        for (x,) in DataLoader(TensorDataset(rows), 8, drop_last=s != 0):
            out, state = model(x[:, :-1], state)
            state = state.detach()
            loss = F.cross_entropy(out.flatten(0, 1), x[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    last_batch_has_another_size(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
