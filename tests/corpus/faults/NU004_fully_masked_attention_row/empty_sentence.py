"""A training with the fault fully-masked-attention-row; arguments: [ONSET] [SEED]."""

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


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16, padding_idx=0)
        self.layers = nn.ModuleList(Attention() for _ in range(2))
        self.out = nn.Linear(16, 3)

    def forward(self, ids):
        mask = ids != 0
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x, mask)
        return self.out(x.mean(1))


def empty_sentence(s):
    ids = torch.randint(1, 30, (480, 7))
    ids[:, 5:] *= torch.rand(480, 2) > 0.5
    y = ids[:, 0] % 3
    model = Pooler()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i in range(30):
        a, b = ids[i * 16 : i * 16 + 16].clone(), y[i * 16 : i * 16 + 16]
        if i == s:
            a[9] = 0
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    empty_sentence(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
