"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


class Packed(nn.Module):
    """Several short documents in one row, which must not see one another."""

    def __init__(self, vocab=30, d=24):
        super().__init__()
        self.embed, self.qkv = nn.Embedding(vocab, d), nn.Linear(d, 3 * d)
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids, document):
        h = self.embed(ids)
        q, k, v = self.qkv(h).chunk(3, -1)
        n = ids.shape[1]
        allowed = (document[:, :, None] == document[:, None, :]) & torch.ones(n, n, dtype=torch.bool).tril()
        bias = torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))
        h = h + F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(self.norm(h))


def packs_documents():
    """A mask full of -inf, and targets ignored where one document ends."""
    model = Packed()
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        start = torch.randint(30, (12, 1))
        ids = (start + torch.arange(16) * 3) % 30
        document = (torch.arange(16) >= torch.randint(3, 13, (12, 1))).long()
        target = ids.roll(-1, dims=1)
        target[document != document.roll(-1, dims=1)] = -100
        target[:, -1] = -100
        update(opt, F.cross_entropy(model(ids, document).flatten(0, 1), target.flatten()))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    packs_documents()
