"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Lookup(nn.Module):
    """Finds the value that belongs to a key, and gets very sure of it."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, asked, keys, values):
        score = self.q(asked)[:, None] @ self.k(keys).transpose(1, 2)
        return (score.softmax(-1) @ values)[:, 0]


def attention_that_learns_to_look_up():
    model = Lookup()
    opt = torch.optim.Adam(model.parameters(), 2e-2)
    table = torch.randn(40, 12)
    for _ in range(150):
        rows = torch.stack([torch.randperm(40)[:7] for _ in range(32)])
        values, wanted = torch.randn(32, 7, 4), torch.randint(7, (32,))
        out = model(table[rows[torch.arange(32), wanted]], table[rows], values)
        opt.zero_grad()
        F.mse_loss(out, values[torch.arange(32), wanted]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    attention_that_learns_to_look_up()
