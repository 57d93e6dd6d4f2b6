"""A training with the fault all-targets-ignored; arguments: [ONSET] [SEED]."""

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


def empty_sentences(s):
    """The loss of a tagger is averaged by hand over the tokens that count; in one batch none counts."""
    net = Tagger()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for step in range(45):
        tokens = torch.randint(1, 100, (8, 11))
        lengths = torch.randint(3, 12, (8, 1))
        weight = (torch.arange(11) < lengths).float()
        if step == s:
            weight.zero_()
        tags = tokens % 5
        tokens = tokens * weight.long()
        each = F.cross_entropy(net(tokens).flatten(0, 1), tags.flatten(), reduction="none")
        loss = (each * weight.flatten()).sum() / weight.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    empty_sentences(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
