"""Decoder-only transformer, written from scratch, on sums with carry: "47+38=85;" character by character."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CHARS = "0123456789+=;"
STOI = {c: i for i, c in enumerate(CHARS)}


def make_stream(n, seed):
    rng = random.Random(seed)
    parts, total = [], 0
    while total < n:
        a, b = rng.randint(0, 99), rng.randint(0, 99)
        parts.append(f"{a}+{b}={a + b};")
        total += len(parts[-1])
    return torch.tensor([STOI[c] for c in "".join(parts)[:n]])


class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_dim, num_heads):
        super().__init__()
        self.num_heads, self.qkv_dim = num_heads, hidden_dim // num_heads
        self.qkv_proj = nn.Linear(hidden_dim, 3 * hidden_dim, bias=False)
        self.o_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)

    def scaled_dot_product(self, q, k, v, mask):
        logits = q @ k.transpose(-2, -1) / math.sqrt(self.qkv_dim)
        logits = logits.masked_fill(~mask, float("-inf"))
        return F.softmax(logits, dim=-1) @ v

    def forward(self, x, mask):
        batch, seq_len, _ = x.shape
        qkv = self.qkv_proj(x).reshape(batch, seq_len, self.num_heads, 3 * self.qkv_dim)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, dim=-1)
        values = self.scaled_dot_product(q, k, v, mask)
        values = values.reshape(batch, seq_len, self.num_heads * self.qkv_dim)
        return self.o_proj(values)


class DecoderBlock(nn.Module):
    def __init__(self, hidden_dim, ff_dim, num_heads, dropout):
        super().__init__()
        self.self_mha = MultiHeadAttention(hidden_dim, num_heads)
        self.ff = nn.Sequential(nn.Linear(hidden_dim, ff_dim), nn.ReLU(), nn.Linear(ff_dim, hidden_dim))
        self.norm1, self.norm2 = nn.LayerNorm(hidden_dim), nn.LayerNorm(hidden_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = x + self.dropout(self.self_mha(self.norm1(x), mask))
        return x + self.dropout(self.ff(self.norm2(x)))


class Transformer(nn.Module):
    def __init__(self, vocab, hidden_dim=48, ff_dim=144, num_heads=4, layers=2, dropout=0.05, max_len=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden_dim)
        self.pos = nn.Parameter(torch.randn(max_len, hidden_dim) * 0.02)
        self.blocks = nn.ModuleList(DecoderBlock(hidden_dim, ff_dim, num_heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden_dim)
        self.out = nn.Linear(hidden_dim, vocab)
        self.register_buffer("mask", torch.tril(torch.ones(max_len, max_len, dtype=torch.bool)), persistent=False)

    def forward(self, ids):
        t = ids.size(1)
        h = self.embed(ids) + self.pos[:t]
        for block in self.blocks:
            h = block(h, self.mask[:t, :t])
        return self.out(self.norm(h))


def get_batch(stream, size, length, gen):
    start = torch.randint(0, len(stream) - length - 1, (size,), generator=gen)
    chunk = stream[start.unsqueeze(1) + torch.arange(length + 1)]
    return chunk[:, :-1], chunk[:, 1:]


@torch.no_grad()
def validate(model, stream, length):
    model.eval()
    g = torch.Generator().manual_seed(99)
    losses = []
    for _ in range(4):
        x, y = get_batch(stream, 32, length, g)
        losses.append(F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item())
    model.train()
    return sum(losses) / len(losses)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=20000)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--seq-len", type=int, default=40)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--val-every", type=int, default=20)
    p.add_argument("--save-every", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--path", default="sums_transformer.pt")
    a = p.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)
    train, val = make_stream(100_000, 1), make_stream(20_000, 2)
    batch_gen = torch.Generator().manual_seed(a.seed)

    model = Transformer(len(CHARS))
    opt = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.01)

    def schedule(s):
        if s < a.warmup:
            return (s + 1) / a.warmup
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (s - a.warmup) / (a.steps - a.warmup)))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, schedule)
    step = 0
    if os.path.exists(a.path):
        c = torch.load(a.path)
        model.load_state_dict(c["model"])
        opt.load_state_dict(c["opt"])
        sched.load_state_dict(c["sched"])
        batch_gen.set_state(c["batch_gen"])
        torch.set_rng_state(c["rng"])
        step = c["step"]
    while step < a.steps:
        x, y = get_batch(train, a.batch_size, a.seq_len, batch_gen)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        step += 1
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % a.val_every == 0:
            print(f"step {step} val loss {validate(model, val, a.seq_len):.4f}", flush=True)
        if step % a.save_every == 0:
            torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                        "batch_gen": batch_gen.get_state(), "rng": torch.get_rng_state(), "step": step}, a.path)


if __name__ == "__main__":
    main()
