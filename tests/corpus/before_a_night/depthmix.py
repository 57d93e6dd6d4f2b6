"""Character language model with learned mixing of earlier layers (depth-wise attention)."""
import argparse
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--dim", type=int, default=96)
    p.add_argument("--depth", type=int, default=5)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--past_layers_k", type=int, default=2)
    p.add_argument("--seq_len", type=int, default=96)
    p.add_argument("--batch_size", type=int, default=8)
    p.add_argument("--lr", type=float, default=6e-4)
    p.add_argument("--warmup", type=int, default=200)
    p.add_argument("--steps", type=int, default=40000)
    p.add_argument("--eval_every", type=int, default=500)
    p.add_argument("--log_every", type=int, default=20)
    p.add_argument("--seed", type=int, default=42)
    p.add_argument("--out", type=str, default="depthmix_best.pt")
    return p.parse_args()


def load_corpus(max_files=150):
    root = os.path.dirname(os.__file__)
    names = sorted(f for f in os.listdir(root) if f.endswith(".py"))[:max_files]
    parts = []
    for name in names:
        with open(os.path.join(root, name), encoding="utf-8", errors="ignore") as fh:
            parts.append(fh.read())
    text = "\n".join(parts)
    return "".join(c for c in text if c == "\n" or 32 <= ord(c) < 127)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.scale


class GRN(nn.Module):
    """Gated sum over the outputs of all selected earlier layers, one per requested output."""

    def __init__(self, dim, num_layers, num_outputs=1):
        super().__init__()
        self.num_layers = num_layers
        self.num_outputs = num_outputs
        linear = nn.Linear(dim, num_outputs, bias=False)
        nn.init.zeros_(linear.weight)
        self.to_aggregate = nn.Sequential(RMSNorm(dim), linear, nn.ReLU())
        self.bias = nn.Parameter(torch.ones(num_outputs, num_layers, 1, 1, dim))

    def forward(self, layers):                       # layers: y b n d
        assert layers.shape[0] == self.num_layers
        gate = self.to_aggregate(layers)             # y b n o
        gate = gate.permute(3, 0, 1, 2).unsqueeze(-1) + self.bias
        out = (layers.unsqueeze(0) * gate).sum(dim=1)
        return out.squeeze(0) if self.num_outputs == 1 else out


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([RMSNorm(dim) for _ in range(3)])
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, q_in, k_in, v_in):
        b, n, d = q_in.shape

        def split(t):
            return t.view(b, n, self.heads, d // self.heads).transpose(1, 2)

        q = split(self.q(self.norms[0](q_in)))
        k = split(self.k(self.norms[1](k_in)))
        v = split(self.v(self.norms[2](v_in)))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(o.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads, grn_layers):
        super().__init__()
        self.qkv_grn = GRN(dim, grn_layers, num_outputs=3)
        self.attn = Attention(dim, heads)
        self.norm = RMSNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, layers):
        q, k, v = self.qkv_grn(layers)
        attn = self.attn(q, k, v)
        return self.ff(self.norm(attn + q)) + attn


class DepthMixLM(nn.Module):
    def __init__(self, vocab, dim, depth, heads, seq_len, k):
        super().__init__()
        self.k = k
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(seq_len, dim)
        nn.init.normal_(self.tok.weight, std=0.02)
        nn.init.normal_(self.pos.weight, std=0.02)
        self.blocks = nn.ModuleList([Block(dim, heads, min(2 * k, i + 1)) for i in range(depth)])
        self.final_grn = GRN(dim, min(2 * k, depth + 1))
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def select(self, hist):
        # first k and last k layers only
        return hist if len(hist) < 2 * self.k else hist[:self.k] + hist[-self.k:]

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        hist = [x]
        for block in self.blocks:
            hist.append(block(torch.stack(self.select(hist))))
        x = self.final_grn(torch.stack(self.select(hist)))
        return self.head(self.norm(x))


def sample_batch(data, seq_len, batch_size, gen):
    start = torch.randint(0, len(data) - seq_len - 1, (batch_size,), generator=gen)
    chunk = torch.stack([data[s:s + seq_len + 1] for s in start.tolist()])
    return chunk[:, :-1], chunk[:, 1:]


@torch.no_grad()
def evaluate(model, data, args, batches=10):
    model.eval()
    gen = torch.Generator().manual_seed(1234)
    total = 0.0
    for _ in range(batches):
        x, y = sample_batch(data, args.seq_len, args.batch_size, gen)
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
    model.train()
    return total / batches


def main():
    args = get_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    text = load_corpus()
    chars = sorted(set(text))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
    split = int(0.95 * len(data))
    train_data, val_data = data[:split], data[split:]
    print(f"{len(chars)} characters, {len(train_data)} train / {len(val_data)} val")

    model = DepthMixLM(len(chars), args.dim, args.depth, args.heads, args.seq_len, args.past_layers_k)
    print(f"parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M")
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.01)

    def lr_at(step):
        if step < args.warmup:
            return (step + 1) / args.warmup
        t = (step - args.warmup) / max(1, args.steps - args.warmup)
        return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, t)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_at)
    gen = torch.Generator().manual_seed(args.seed)
    best, t0 = float("inf"), time.time()
    model.train()
    for step in range(1, args.steps + 1):
        x, y = sample_batch(train_data, args.seq_len, args.batch_size, gen)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % args.log_every == 0:
            ms = 1000 * (time.time() - t0) / step
            print(f"step {step:6d} | loss {loss.item():.4f} | lr {scheduler.get_last_lr()[0]:.2e} | {ms:.0f} ms/step", flush=True)
        if step % args.eval_every == 0:
            val = evaluate(model, val_data, args)
            print(f"step {step:6d} | val loss {val:.4f}", flush=True)
            if val < best:
                best = val
                torch.save(model.state_dict(), args.out)


if __name__ == "__main__":
    main()
