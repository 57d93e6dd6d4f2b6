"""A training with the fault tied-weights-untied; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Speller(nn.Module):
    """Next token, with the head tied to the embedding."""

    def __init__(self, vocabulary=40, width=24):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


def spell(model, opt, i, high=40):
    start = torch.randint(high, (8, 1))
    x = (start + 3 * torch.arange(13)) % high
    loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()


def head_replaced_by_a_clone(s):
    model = Speller()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(30):
        if i == s:
            model.head.weight = nn.Parameter(model.head.weight.detach().clone())
        spell(model, opt, i)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    head_replaced_by_a_clone(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
