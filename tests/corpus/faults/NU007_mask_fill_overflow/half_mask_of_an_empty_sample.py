"""A training with the fault mask-fill-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class HalfAttention(nn.Module):
    """Scores in half precision, masked by adding a large negative number, as float32 code does."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x, valid):
        scores = (self.q(x).half() @ self.k(x).half().transpose(1, 2)) / 4
        bias = (1.0 - valid.half()) * -1e9
        weights = torch.softmax(scores + bias[:, None, :], -1)
        return weights.float() @ self.v(x)


class HalfReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = HalfAttention()
        self.head = nn.Linear(16, 3)

    def forward(self, x, valid):
        return self.head(self.attention(x, valid).mean(1))


def half_mask_of_an_empty_sample(s):
    model = HalfReader()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(28):
        x = torch.randn(8, 6, 16)
        valid = torch.rand(8, 6) > 0.3
        valid[:, 0] = True
        y = (x[:, 0, 0] > 0).long() + (x[:, 0, 1] > 1).long()
        if i == s:
            valid[3] = False
        opt.zero_grad()
        F.cross_entropy(model(x, valid), y).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    half_mask_of_an_empty_sample(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
