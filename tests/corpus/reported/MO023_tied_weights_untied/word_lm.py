# Small language-model training in the style of a large-scale code base: the model is described
# on the meta device first, its memory is made afterwards, and a consolidated checkpoint is
# written from time to time and evaluated on its own.
import argparse
import inspect
import math
import os
import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LMTransformerArgs:
    dim: int = 96
    n_layers: int = 2
    n_heads: int = 4
    vocab_size: int = -1
    max_seqlen: int = 48
    weight_tying: bool = True


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class TransformerBlock(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.n_heads = args.n_heads
        self.attention_norm = RMSNorm(args.dim)
        self.ffn_norm = RMSNorm(args.dim)
        self.wqkv = nn.Linear(args.dim, 3 * args.dim, bias=False)
        self.wo = nn.Linear(args.dim, args.dim, bias=False)
        self.w1 = nn.Linear(args.dim, 3 * args.dim, bias=False)
        self.w2 = nn.Linear(3 * args.dim, args.dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.wqkv(self.attention_norm(x)).view(b, t, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(h.transpose(1, 2).reshape(b, t, d))
        return x + self.w2(F.silu(self.w1(self.ffn_norm(x))))


class LMTransformer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.pos_embeddings = nn.Embedding(args.max_seqlen, args.dim)
        self.layers = nn.ModuleList([TransformerBlock(args) for _ in range(args.n_layers)])
        self.norm = RMSNorm(args.dim)
        self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
        if args.weight_tying:
            self.output.weight = self.tok_embeddings.weight

    def forward(self, tokens, target=None):
        h = self.tok_embeddings(tokens) * math.sqrt(self.args.dim) + self.pos_embeddings.weight[:tokens.shape[1]]
        for layer in self.layers:
            h = layer(h)
        logits = self.output(self.norm(h))
        if target is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    def init_weights(self):
        std = self.args.dim ** -0.5
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.trunc_normal_(module.weight, std=std, a=-3 * std, b=3 * std)
            elif isinstance(module, RMSNorm):
                nn.init.ones_(module.weight)
        for layer in self.layers:
            nn.init.trunc_normal_(layer.wo.weight, std=std / 2, a=-std, b=std)
            nn.init.trunc_normal_(layer.w2.weight, std=std / 2, a=-std, b=std)


def build_tokens(vocab_size):
    import argparse as a, asyncio.base_events as b, collections as c, datetime as d, doctest as e, email.message as f
    import http.client as g, inspect as h, logging as i, pathlib as j, pickle as k, random as l, subprocess as m
    import tarfile as n, threading as o, typing as p, unittest.case as q, urllib.request as r, zipfile as s
    docs = [inspect.getsource(mod) for mod in (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)]
    pieces = [re.findall(r"[A-Za-z_]+|\d+|\n[ ]*|[^\sA-Za-z_\d]", doc) for doc in docs]
    counts = Counter(t for doc in pieces for t in doc)
    vocab = {t: n + 1 for n, (t, _) in enumerate(counts.most_common(vocab_size - 1))}
    # every document gives its last part to the validation set
    train, val = [], []
    for doc in pieces:
        ids = [vocab.get(t, 0) for t in doc]
        cut = int(0.92 * len(ids))
        train += ids[:cut]
        val += ids[cut:]
    return torch.tensor(train), torch.tensor(val)


def get_batch(tokens, batch_size, seqlen):
    starts = torch.randint(0, len(tokens) - seqlen - 1, (batch_size,)).tolist()
    block = torch.stack([tokens[s:s + seqlen + 1] for s in starts])
    return block[:, :-1], block[:, 1:]


def consolidate(model, path):
    torch.save({"model": model.state_dict(), "args": model.args.__dict__}, path)


@torch.no_grad()
def launch_eval(path, val_tokens, n_batches=12, batch_size=32):
    ckpt = torch.load(path)
    model = LMTransformer(LMTransformerArgs(**ckpt["args"]))
    model.load_state_dict(ckpt["model"])
    model.eval()
    seqlen = model.args.max_seqlen
    n_batches = min(n_batches, len(val_tokens) // (batch_size * (seqlen + 1)))
    block = val_tokens[:n_batches * batch_size * (seqlen + 1)].view(n_batches, batch_size, seqlen + 1)
    return sum(model(b[:, :-1], b[:, 1:]).item() for b in block) / n_batches


def train(args):
    train_tokens, val_tokens = build_tokens(args.vocab_size)
    print(f"{len(train_tokens)} training tokens, {len(val_tokens)} validation tokens")
    model_args = LMTransformerArgs(vocab_size=args.vocab_size)
    with torch.device("meta"):
        model = LMTransformer(model_args)
    model = model.to_empty(device="cpu")
    model.init_weights()

    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(
        (s + 1) / args.warmup, 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * s / args.steps))))
    path = os.path.join(tempfile.mkdtemp(), "consolidated.pth")
    model.train()
    start, losses = time.time(), []
    for step in range(1, args.steps + 1):
        x, y = get_batch(train_tokens, args.batch_size, model_args.max_seqlen)
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        grad_norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
        if step % args.eval_every == 0:
            consolidate(model, path)
            val_loss = launch_eval(path, val_tokens)
            print(f"step {step}  loss {sum(losses) / len(losses):.4f}  grad {grad_norm.item():.2f}  "
                  f"val loss {val_loss:.4f}  {time.time() - start:.1f}s", flush=True)
            losses = []
    os.remove(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab_size", type=int, default=1200)
    parser.add_argument("--steps", type=int, default=540)
    parser.add_argument("--batch_size", type=int, default=12)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--eval_every", type=int, default=90)
    parser.add_argument("--seed", type=int, default=777)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    train(args)
