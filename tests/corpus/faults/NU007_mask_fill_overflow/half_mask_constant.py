"""A training with the fault mask-fill-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def half_mask_constant(s):
    """A causal model in half precision whose mask is filled with -1e9."""
    d = 16
    emb, q, k, v, out = nn.Embedding(40, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 40)
    model = nn.ModuleDict({"emb": emb, "q": q, "k": k, "v": v, "out": out})
    if s == 0:
        model = model.half()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(40):
        ids = torch.arange(10) + torch.randint(28, (8, 1))
        pad = torch.arange(10) >= torch.randint(6, 11, (8, 1))
        h = emb(ids)
        score = q(h) @ k(h).transpose(1, 2)
        bias = torch.zeros(8, 1, 10).masked_fill(pad[:, None], -1e9)
        later = torch.ones(10, 10, dtype=torch.bool).triu(1)
        bias = bias.repeat(1, 10, 1).masked_fill(pad[:, :, None] | later, -1e9)
        logits = out((score + bias.to(score.dtype)).softmax(-1) @ v(h))
        loss = F.cross_entropy(logits[:, :-1].float().reshape(-1, 40), ids[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    half_mask_constant(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
