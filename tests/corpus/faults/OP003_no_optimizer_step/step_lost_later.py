"""A training with the fault no-optimizer-step; arguments: [ONSET] [SEED]."""

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


def step_lost_later(s):
    ids = torch.randint(40, (480, 6))
    model = Tagger()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(30):
        a = ids[i * 16 : i * 16 + 16]
        loss = F.cross_entropy(model(a).flatten(0, 1), (a % 5).flatten())
        opt.zero_grad()
        loss.backward()
        if i < s:
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    step_lost_later(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
