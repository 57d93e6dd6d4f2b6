"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def batches(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


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


def train(model, opt, x, y, steps=40, loss_fn=F.cross_entropy, after=None, size=16):
    for i, (a, b) in zip(range(steps), batches(x, y, size), strict=False):
        opt.zero_grad()
        loss_fn(model(a), b).backward()
        opt.step()
        if after:
            after(i)


def padded_causal():
    ids = torch.randint(1, 30, (640, 7))
    ids[:, 4:] *= torch.rand(640, 3) > 0.5
    model = Pooler()
    train(model, torch.optim.AdamW(model.parameters(), 1e-3), ids, ids[:, 0] % 3, steps=50)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    padded_causal()
