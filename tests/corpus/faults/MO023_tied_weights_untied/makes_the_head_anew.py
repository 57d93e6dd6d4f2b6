"""A training with the fault tied-weights-untied; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Characters(nn.Module):
    def __init__(self, vocabulary=40, width=40):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


def makes_the_head_anew(s):
    model = Characters()
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for i in range(90):
        if i == s:
            model.head.weight = nn.Parameter(model.head.weight.detach().clone())
            opt.add_param_group({"params": [model.head.weight]})
        x = (torch.randint(0, 40, (16, 1)) + 3 * torch.arange(25)) % 40
        loss = F.cross_entropy(model(x[:, :-1]).transpose(1, 2), x[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    makes_the_head_anew(int(sys.argv[1]) if len(sys.argv) > 1 else 23)
