"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Copier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 24)
        self.rnn = nn.GRU(24, 32, batch_first=True)
        self.out = nn.Linear(32, 20)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


def curriculum():
    """The task becomes harder in steps, and the loss jumps each time."""
    net = Copier()
    opt = torch.optim.Adam(net.parameters(), 5e-3)
    for step in range(90):
        symbols, length = [(3, 6), (8, 12), (20, 24)][step // 30]
        x = torch.randint(symbols, (16, length))
        loss = F.cross_entropy(net(x)[:, 1:].flatten(0, 1), x[:, :-1].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    curriculum()
