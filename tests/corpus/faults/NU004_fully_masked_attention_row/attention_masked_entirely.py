"""A training with the fault fully-masked-attention-row; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def attention_masked_entirely(s):
    """A causal decoder adds a mask that forbids every key for one sample."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(24, 72), nn.Linear(24, 24)

        def forward(self, x, mask):
            q, k, v = self.qkv(x).chunk(3, -1)
            w = (q @ k.transpose(1, 2) / 24**0.5).masked_fill(mask, float("-inf")).softmax(-1)
            return x + self.proj(w @ v)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.blocks = nn.Embedding(20, 24), nn.ModuleList([Block(), Block()])
            self.out = nn.Linear(24, 20)

        def forward(self, ids, mask):
            h = self.emb(ids)
            for block in self.blocks:
                h = block(h, mask)
            return self.out(h)

    model = Decoder()
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    causal = torch.ones(11, 11, dtype=torch.bool).triu(1)
    for step in range(90):
        ids = (torch.randint(20, (16, 1)) + torch.arange(12)) % 20
        mask = causal.expand(16, 11, 11).clone()
        if step == s:
            mask[2] = True
        loss = F.cross_entropy(model(ids[:, :-1], mask).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    attention_masked_entirely(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
