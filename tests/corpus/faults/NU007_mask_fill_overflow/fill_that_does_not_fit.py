"""A training with the fault mask-fill-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class HalfAttention(nn.Module):
    """Attention in half precision with an additive mask."""

    def __init__(self, width=16, fill=-1e9):
        super().__init__()
        self.embed = nn.Embedding(30, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, 4)
        self.fill = fill

    def forward(self, x, mask, refused=False):
        q, k, v = self.qkv(self.embed(x)).chunk(3, -1)
        scores = q @ k.transpose(1, 2) * 0.25
        if refused:
            scores = scores.masked_fill(~mask[:, None].bool(), self.fill)
        else:
            scores = scores + (1 - mask[:, None]).to(scores.dtype) * self.fill
        return self.out((scores.softmax(-1) @ v).mean(1))


def fill_that_does_not_fit(s):
    model = HalfAttention(fill=-1e10).half()
    opt = torch.optim.SGD(model.parameters(), 1e-2)
    for i in range(24):
        x = torch.randint(30, (8, 6))
        mask = torch.ones(8, 6, dtype=torch.half)
        loss = F.cross_entropy(model(x, mask, refused=i == s).float(), x[:, 0] % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    fill_that_does_not_fit(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
