"""A training with the fault fully-masked-attention-row; arguments: [ONSET] [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class SelfAttention(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, -1)
        att = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        att = att.masked_fill(~mask[:, None, :], float("-inf"))
        return self.proj(att.softmax(-1) @ v)


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16, padding_idx=0)
        self.attn = SelfAttention()
        self.norm = nn.LayerNorm(16)
        self.cls = nn.Linear(16, 2)

    def forward(self, ids):
        mask = ids != 0
        x = self.emb(ids)
        x = self.norm(x + self.attn(x, mask))
        return self.cls(x.mean(1))


def empty_document(s):
    """Attention by hand over padded documents; one document holds no word."""
    model = Pooler()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for step in range(60):
        ids = torch.randint(1, 50, (12, 9))
        length = torch.randint(2, 10, (12, 1))
        ids = ids.masked_fill(torch.arange(9) >= length, 0)
        y = (ids[:, 0] > 25).long()
        if step == s:
            ids[5] = 0
        loss = F.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    empty_document(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
