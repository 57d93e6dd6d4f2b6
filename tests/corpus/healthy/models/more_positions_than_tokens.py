"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Positions(nn.Module):
    """A tied language model with more positions and words than it meets."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(3000, 16)
        self.pos_emb = nn.Embedding(256, 16)
        self.mix = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 3000, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        return self.head(self.mix(self.words(x) + self.pos_emb(torch.arange(x.shape[1]).expand_as(x)))[0])


def more_positions_than_tokens():
    model = Positions()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(40):
        x = (torch.rand(32, 17) ** 6 * 3000).long()
        loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    more_positions_than_tokens()
