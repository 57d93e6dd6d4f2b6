"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Tagger(nn.Module):
    def __init__(self, vocabulary=40, tags=5):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 16)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.out = nn.Linear(24, tags)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


def tagging_with_ignored():
    ids = torch.randint(40, (640, 6))
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for i in range(40):
        a = ids[i * 16 : i * 16 + 16]
        b = torch.where(torch.rand(a.shape) < 0.85, -100, a % 5)
        loss = F.cross_entropy(model(a).flatten(0, 1), b.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    tagging_with_ignored()
