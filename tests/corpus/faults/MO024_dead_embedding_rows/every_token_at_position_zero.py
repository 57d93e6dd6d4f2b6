"""A training with the fault dead-embedding-rows; arguments: [ONSET] [SEED]."""

import argparse
import math
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


class TinyGPT(nn.Module):
    """A causal transformer whose head has the weights of its embedding."""

    def __init__(self, vocab, d=32, layers=2, context=24):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.wpe = nn.Embedding(context, d)
        make = lambda: nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, F.gelu, batch_first=True, norm_first=True)  # noqa: E731
        self.blocks = nn.ModuleList(make() for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        nn.init.normal_(self.wte.weight, std=0.05)
        self.lm_head.weight = self.wte.weight
        self.all_at_zero = False

    def forward(self, ids):
        n = ids.shape[1]
        where = torch.zeros(n, dtype=torch.long) if self.all_at_zero else torch.arange(n)
        h = self.wte(ids) + self.wpe(where)
        mask = nn.Transformer.generate_square_subsequent_mask(n, dtype=h.dtype)
        for block in self.blocks:
            h = block(h, src_mask=mask, is_causal=True)
        return self.lm_head(self.ln_f(h))


def prose():
    """The documentation of some modules, as numbers."""
    words = "".join(
        m.__doc__ or "" for m in (argparse, random, math, argparse.ArgumentParser, random.Random, nn.Linear)
    )
    letters = sorted(set(words))
    return torch.tensor([letters.index(c) for c in words]), len(letters)


def excerpts(data, count, length):
    start = torch.randint(len(data) - length - 1, (count,)).tolist()
    return torch.stack([data[i : i + length] for i in start]), torch.stack(
        [data[i + 1 : i + 1 + length] for i in start]
    )


def train_gpt(model, opt, data, steps, before=lambda step: None):
    for step in range(steps):
        before(step)
        x, y = excerpts(data, 6, 20)
        logits = model(x)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


def every_token_at_position_zero(s):
    """Positions are zeros_like where arange was meant: all rows but one stay as they were made."""
    data, vocab = prose()
    model = TinyGPT(vocab)
    model.all_at_zero = s == 0
    train_gpt(model, optim.AdamW(model.parameters(), lr=2e-3), data, 60)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    every_token_at_position_zero(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
