import argparse
import glob
import math
import os
import random
import sysconfig

import numpy as np
import torch
from torch import nn


def load_text(n_files, limit):
    root = sysconfig.get_paths()["stdlib"]
    files = sorted(glob.glob(os.path.join(root, "*.py")))[:n_files]
    text = "\n".join(open(f, encoding="utf-8", errors="ignore").read() for f in files)
    text = "".join(c if ord(c) < 127 else "?" for c in text)
    return text[:limit]


class Corpus:
    def __init__(self, text, valid_frac=0.05):
        self.vocab = sorted(set(text))
        stoi = {c: i for i, c in enumerate(self.vocab)}
        data = torch.tensor([stoi[c] for c in text])
        cut = int(len(data) * (1 - valid_frac))
        self.train, self.valid = data[:cut], data[cut:]

    def batch(self, split, bs, ctx, gen):
        data = self.train if split == "train" else self.valid
        ix = torch.randint(len(data) - ctx - 1, (bs,), generator=gen)
        x = torch.stack([data[i:i + ctx] for i in ix])
        y = torch.stack([data[i + 1:i + ctx + 1] for i in ix])
        return x, y


class DotAttention(nn.Module):
    """Scaled dot product attention on (batch, heads, length, size)."""

    def __init__(self, key_size, dropout=0.0):
        super().__init__()
        self.scale = math.sqrt(key_size)
        self.drop = nn.Dropout(dropout)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, Q, K, V, mask_out=None):
        output = torch.matmul(Q, K.transpose(-1, -2)) / self.scale
        if mask_out is not None:
            output = output.masked_fill(mask_out, -1e18)
        output = self.softmax(output)
        output = self.drop(output)
        return torch.matmul(output, V)


class MultiHeadAttention(nn.Module):
    def __init__(self, input_size, num_head, dropout):
        super().__init__()
        self.num_head, self.size = num_head, input_size // num_head
        self.q_in = nn.Linear(input_size, input_size)
        self.k_in = nn.Linear(input_size, input_size)
        self.v_in = nn.Linear(input_size, input_size)
        self.attention = DotAttention(self.size, dropout)
        self.out = nn.Linear(input_size, input_size)

    def forward(self, x, mask_out):
        b, t, d = x.shape
        q = self.q_in(x).view(b, t, self.num_head, self.size).transpose(1, 2)
        k = self.k_in(x).view(b, t, self.num_head, self.size).transpose(1, 2)
        v = self.v_in(x).view(b, t, self.num_head, self.size).transpose(1, 2)
        atte = self.attention(q, k, v, mask_out)
        return self.out(atte.transpose(1, 2).reshape(b, t, d))


class SubLayer(nn.Module):
    def __init__(self, d, heads, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.atte = MultiHeadAttention(d, heads, dropout)
        self.ffn = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d), nn.Dropout(dropout))

    def forward(self, x, mask):
        x = x + self.atte(self.norm1(x), mask)
        return x + self.ffn(self.norm2(x))


class CharTransformer(nn.Module):
    def __init__(self, vocab, d, layers, heads, ctx, dropout):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(ctx, d)
        self.layers = nn.ModuleList(SubLayer(d, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        self.proj = nn.Linear(d, vocab)
        self.register_buffer("future", torch.triu(torch.ones(ctx, ctx), 1).bool())

    def forward(self, x):
        t = x.size(1)
        h = self.embed(x) + self.pos(torch.arange(t, device=x.device))
        for layer in self.layers:
            h = layer(h, self.future[:t, :t])
        return self.proj(self.norm(h))


@torch.no_grad()
def validate(model, corpus, args, loss_fn):
    model.eval()
    gen = torch.Generator().manual_seed(0)
    total = 0.0
    for _ in range(args.eval_batches):
        x, y = corpus.batch("valid", args.batch_size, args.ctx, gen)
        total += loss_fn(model(x).flatten(0, 1), y.flatten()).item()
    model.train()
    return total / args.eval_batches


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=60000)
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--ctx", type=int, default=96)
    p.add_argument("--dim", type=int, default=96)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup", type=int, default=100)
    p.add_argument("--eval_every", type=int, default=200)
    p.add_argument("--eval_batches", type=int, default=15)
    p.add_argument("--seed", type=int, default=2019)
    p.add_argument("--save", default="char_lm.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    corpus = Corpus(load_text(80, 3_000_000))
    print(f"{len(corpus.train)} train characters, vocabulary {len(corpus.vocab)}")
    model = CharTransformer(len(corpus.vocab), args.dim, args.layers, args.heads, args.ctx, args.dropout)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)

    def factor(step):
        if step < args.warmup:
            return (step + 1) / args.warmup
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - args.warmup) / (args.steps - args.warmup)))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
    loss_fn = nn.CrossEntropyLoss()
    gen = torch.Generator().manual_seed(args.seed)
    best = float("inf")
    for step in range(1, args.steps + 1):
        x, y = corpus.batch("train", args.batch_size, args.ctx, gen)
        loss = loss_fn(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} ppl {math.exp(loss.item()):.2f}", flush=True)
        if step % args.eval_every == 0:
            val = validate(model, corpus, args, loss_fn)
            print(f"step {step} valid {val:.4f} bpc {val / math.log(2):.3f}", flush=True)
            if val < best:
                best = val
                torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
