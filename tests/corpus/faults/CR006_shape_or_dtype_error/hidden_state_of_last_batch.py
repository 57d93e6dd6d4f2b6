"""A training with the fault shape-or-dtype-error; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class LanguageModel(nn.Module):
    """Next character of a text."""

    def __init__(self, vocab, d=32, cell=nn.LSTM):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.lstm = cell(d, 48, batch_first=True)
        self.decoder = nn.Linear(48, vocab)

    def forward(self, x, hidden=None):
        h, hidden = self.lstm(self.embedding(x), hidden)
        return self.decoder(h), hidden


def hidden_state_of_last_batch(s):
    """The hidden state is carried over to a last batch that is smaller."""
    model = LanguageModel(30)
    opt = optim.Adam(model.parameters(), lr=1e-3)
    count = 16 * 20 if s > 1000 else 16 * s + 5
    ids = torch.randint(30, (count, 12))
    hidden = None
    for (x,) in DataLoader(TensorDataset(ids), batch_size=16):
        logits, hidden = model(x, hidden)
        hidden = tuple(h.detach() for h in hidden)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), x[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    hidden_state_of_last_batch(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
