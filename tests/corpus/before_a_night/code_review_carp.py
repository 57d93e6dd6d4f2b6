"""Contrastive passage/review model: passages are function bodies, reviews are the docstrings that go with them."""
import argparse
import ast
import os
import random
import re
import sysconfig
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--batch_size", type=int, default=32)
ap.add_argument("--n_ctx", type=int, default=96)
ap.add_argument("--vocab_size", type=int, default=8000)
ap.add_argument("--dim", type=int, default=96)
ap.add_argument("--layers", type=int, default=2)
ap.add_argument("--lr", type=float, default=5e-4)
ap.add_argument("--epochs", type=int, default=200)
ap.add_argument("--warmup", type=int, default=200)
ap.add_argument("--max_files", type=int, default=120)
ap.add_argument("--eval_every", type=int, default=200)
ap.add_argument("--seed", type=int, default=1)
args = ap.parse_args()


def read_pairs(max_files):
    root = sysconfig.get_paths()["stdlib"]
    files = sorted(f for f in os.listdir(root) if f.endswith(".py"))[:max_files]
    pairs = []
    for f in files:
        src = open(os.path.join(root, f), encoding="utf-8", errors="ignore").read()
        lines = src.splitlines()
        for node in ast.walk(ast.parse(src)):
            if not isinstance(node, ast.FunctionDef):
                continue
            doc = ast.get_docstring(node)
            if not doc or len(doc) < 30 or len(node.body) < 2:
                continue
            head = lines[node.lineno - 1].strip()
            body = "\n".join(lines[node.body[1].lineno - 1:node.end_lineno])
            pairs.append((head + "\n" + body, " ".join(doc.split())))
    return sorted(set(pairs))


class WordTokenizer:
    pad_id, unk_id, cls_id = 0, 1, 2

    def __init__(self, texts, size):
        counts = Counter(w for t in texts for w in self.split(t))
        words = [w for w, _ in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))[:size - 3]]
        self.stoi = {w: i + 3 for i, w in enumerate(words)}
        self.size = len(self.stoi) + 3

    @staticmethod
    def split(text):
        return re.findall(r"[A-Za-z]+|\d|[^\sA-Za-z\d]", text.replace("_", " ").lower())

    def encode(self, text):
        return [self.stoi.get(w, self.unk_id) for w in self.split(text)]


class BaseEncoder(nn.Module):
    def __init__(self, tokenizer, n_ctx, dim, layers):
        super().__init__()
        self.tokenizer, self.n_ctx = tokenizer, n_ctx
        self.emb = nn.Embedding(tokenizer.size, dim, padding_idx=tokenizer.pad_id)
        self.pos = nn.Parameter(torch.randn(n_ctx, dim) * 0.02)
        block = nn.TransformerEncoderLayer(dim, 4, dim * 2, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def tok(self, strings):
        # context ends are the informative part, so keep the last tokens
        ids = [[self.tokenizer.cls_id] + self.tokenizer.encode(s)[-(self.n_ctx - 1):] for s in strings]
        width = max(len(i) for i in ids)
        out = torch.full((len(ids), width), self.tokenizer.pad_id)
        for row, i in enumerate(ids):
            out[row, :len(i)] = torch.tensor(i)
        return out

    def forward(self, ids):
        mask = ids == self.tokenizer.pad_id
        h = self.body(self.emb(ids) + self.pos[:ids.size(1)], src_key_padding_mask=mask)
        keep = (~mask).unsqueeze(-1).float()
        return F.normalize(self.proj((h * keep).sum(1) / keep.sum(1)), dim=-1)


def create_tok(encoder):
    def call_tokenizer(strings):
        strings = [s[-encoder.n_ctx:] for s in strings]
        return encoder.tok(strings)
    return call_tokenizer


class Carp(nn.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self.passage = BaseEncoder(tokenizer, args.n_ctx, args.dim, args.layers)
        self.review = BaseEncoder(tokenizer, args.n_ctx, args.dim, args.layers)
        self.logit_scale = nn.Parameter(torch.tensor(np.log(1 / 0.07), dtype=torch.float32))

    def forward(self, passages, reviews):
        return self.logit_scale.clamp(max=4.6).exp() * self.passage(passages) @ self.review(reviews).T


def contrastive(logits):
    lab = torch.arange(len(logits))
    return (F.cross_entropy(logits, lab) + F.cross_entropy(logits.T, lab)) / 2


@torch.no_grad()
def evaluate(model, tok_p, tok_r, pairs):
    model.eval()
    loss, acc, n = 0.0, 0, 0
    for i in range(0, len(pairs) - args.batch_size + 1, args.batch_size):
        p, r = zip(*pairs[i:i + args.batch_size])
        logits = model(tok_p(p), tok_r(r))
        loss += contrastive(logits).item()
        acc += (logits.argmax(1) == torch.arange(len(p))).float().mean().item()
        n += 1
    model.train()
    return loss / n, acc / n


def main():
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    pairs = read_pairs(args.max_files)
    random.shuffle(pairs)
    valid, train = pairs[:256], pairs[256:]
    tokenizer = WordTokenizer([t for pr in train for t in pr], args.vocab_size)
    print(f"{len(train)} train pairs, {len(valid)} valid pairs, vocabulary {tokenizer.size}")
    model = Carp(tokenizer)
    tok_p, tok_r = create_tok(model.passage), create_tok(model.review)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    per_epoch = len(train) // args.batch_size
    total = args.epochs * per_epoch
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / args.warmup) * 0.5 * (1 + np.cos(np.pi * min(s, total) / total)))
    step = 0
    for epoch in range(args.epochs):
        random.shuffle(train)
        for i in range(per_epoch):
            p, r = zip(*train[i * args.batch_size:(i + 1) * args.batch_size])
            loss = contrastive(model(tok_p(p), tok_r(r)))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            step += 1
            if step % 10 == 0:
                print(f"step {step}/{total} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
            if step % args.eval_every == 0:
                print("valid loss %.4f acc %.3f" % evaluate(model, tok_p, tok_r, valid), flush=True)
                torch.save(model.state_dict(), "carp.pt")


if __name__ == "__main__":
    main()
