"""A training with the fault python-exception; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 24, padding_idx=0)
        self.lstm = nn.LSTM(24, 20, bidirectional=True, batch_first=True)
        self.tag = nn.Linear(40, 5)

    def forward(self, tokens):
        return self.tag(self.lstm(self.embed(tokens))[0])


def word_beyond_vocabulary(s):
    """A token that the vocabulary does not hold."""
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(50):
        tokens = torch.randint(1, 100, (6, 9))
        tags = tokens % 5
        if step == s:
            tokens[1, 4] = 100
        opt.zero_grad()
        F.cross_entropy(model(tokens).flatten(0, 1), tags.flatten()).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    word_beyond_vocabulary(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
