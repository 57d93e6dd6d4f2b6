"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, mask):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 4.0
        scores = scores.masked_fill(~mask[:, None, :], float("-inf"))
        return scores.softmax(-1) @ self.v(x)


def masked_rows_that_are_handled():
    layer, head = Attention(), nn.Linear(16, 2)
    params = [*layer.parameters(), *head.parameters()]
    opt = torch.optim.Adam(params, 1e-3)
    for _ in range(40):
        x = torch.randn(8, 5, 16)
        mask = torch.rand(8, 5) > 0.4
        mask[:, 0] = True
        out = torch.nan_to_num(layer(x, mask))
        loss = F.cross_entropy(head(out.mean(1)), (x[:, 0, 0] > 0).long())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    masked_rows_that_are_handled()
