"""Instruction tuning of a tiny causal language model: "sort:3142>" is answered by "1234" and the end token."""
import argparse
import json
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

CHARS = "0123456789:>srtordev"


class CharTokenizer:
    """Character vocabulary followed by the special tokens."""

    def __init__(self, special):
        chars = sorted(set(CHARS))
        self.vocab = {c: i for i, c in enumerate(chars)}
        for token in special.values():
            self.vocab.setdefault(token, len(self.vocab))
        self.special = dict(special)
        self.inverse = {i: t for t, i in self.vocab.items()}
        self.pad_id = self.vocab[special["pad_token"]]
        self.eos_id = self.vocab[special["eos_token"]]
        self.padding_side = "right"

    def __len__(self):
        return len(self.vocab)

    def encode(self, text):
        return [self.vocab[c] for c in text]

    def decode(self, ids):
        return "".join(self.inverse[int(i)] for i in ids if int(i) not in (self.pad_id, self.eos_id))

    def save(self, path):
        with open(path, "w") as f:
            json.dump({"vocab": self.vocab, "special": self.special, "padding_side": self.padding_side}, f)


SPECIAL_TOKENS = {"eos_token": "<eos>", "pad_token": "<eos>"}


def make_examples(n, seed):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        digits = rng.integers(0, 10, int(rng.integers(5, 8)))
        reverse = rng.random() < 0.5
        answer = sorted(digits, reverse=bool(reverse))
        out.append((("rev:" if reverse else "sort:") + "".join(map(str, digits)) + ">", "".join(map(str, answer))))
    return out


def make_collate(tok):
    def collate(batch):
        rows = [(tok.encode(p), tok.encode(a) + [tok.eos_id]) for p, a in batch]
        width = max(len(p) + len(a) for p, a in rows)
        ids = torch.full((len(rows), width), tok.pad_id)
        labels = torch.full((len(rows), width), -100)
        for i, (p, a) in enumerate(rows):
            ids[i, :len(p) + len(a)] = torch.tensor(p + a)
            labels[i, len(p):len(p) + len(a)] = torch.tensor(a)
        labels[labels == tok.pad_id] = -100
        return ids, labels

    return collate


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class TinyLM(nn.Module):
    def __init__(self, vocab, dim=64, depth=2, heads=4, context=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(context, dim) * 0.05)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tok(ids) + self.pos[:ids.shape[1]])))


def lm_loss(logits, labels):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=300)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=12)
    ap.add_argument("--output_dir", default="sort_model")
    args = ap.parse_args()
    os.makedirs(args.output_dir, exist_ok=True)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    tok = CharTokenizer(SPECIAL_TOKENS)
    tok.save(os.path.join(args.output_dir, "tokenizer.json"))
    order = torch.Generator()
    train = DataLoader(make_examples(800, 1), args.batch_size, shuffle=True, generator=order, collate_fn=make_collate(tok))
    val = make_examples(64, 2)
    val_loader = DataLoader(val, 64, collate_fn=make_collate(tok))
    model = TinyLM(len(tok))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs, eta_min=2e-5)
    path, start = os.path.join(args.output_dir, "model.pt"), 0
    if os.path.exists(path):
        ck = torch.load(path)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 67 * epoch)
        model.train()
        for step, (ids, labels) in enumerate(train):
            loss = lm_loss(model(ids), labels)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        sched.step()
        model.eval()
        with torch.no_grad():
            val_loss = sum(lm_loss(model(ids), labels).item() for ids, labels in val_loader) / len(val_loader)
            ids = torch.tensor([tok.encode(val[0][0])])
            while ids.shape[1] < 28 and int(ids[0, -1]) != tok.eos_id:
                ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)
        print(f"epoch {epoch} val loss {val_loss:.4f} sample {tok.decode(ids[0])} ({ids.shape[1]} tokens)", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1}, path)


if __name__ == "__main__":
    main()
