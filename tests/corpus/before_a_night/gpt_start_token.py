"""Fine-tune a small GPT on short product descriptions, byte-pair tokens, padded to a fixed length."""
import argparse
import collections
import json
import os
import random
import re

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--epochs", type=int, default=300)
p.add_argument("--batch-size", type=int, default=24)
p.add_argument("--lr", type=float, default=1e-3)
p.add_argument("--max-len", type=int, default=28)
p.add_argument("--merges", type=int, default=120)
p.add_argument("--seed", type=int, default=42)
p.add_argument("--output-dir", default="gpt_out")
args = p.parse_args()

BOS, EOS, PAD = "<|startoftext|>", "<|endoftext|>", "<|pad|>"


def corpus(n, seed):
    rng = random.Random(seed)
    kinds = {"lamp": ["warm", "bright", "dim"], "chair": ["soft", "wooden", "tall"], "knife": ["sharp", "heavy"],
             "radio": ["loud", "old", "small"], "boots": ["dry", "warm", "heavy"]}
    rooms = {"lamp": "desk", "chair": "garden", "knife": "kitchen", "radio": "garage", "boots": "hall"}
    seen, out = set(), []
    while len(out) < n:
        k = rng.choice(list(kinds))
        a = rng.choice(kinds[k])
        price = rng.randint(5, 999)
        t = f"the {a} {k} no {price} is for the {rooms[k]} and costs {price + 1} crowns"
        if t not in seen:
            seen.add(t)
            out.append(t)
    return out


class BPETokenizer:
    """Characters plus learned merges; the special tokens are added behind the base vocabulary."""

    def __init__(self, vocab, merges, special_tokens):
        self.vocab = vocab
        self.merges = [tuple(m) for m in merges]
        self.ranks = {m: i for i, m in enumerate(self.merges)}
        self.special_tokens = list(special_tokens)
        for t in self.special_tokens + [BOS, EOS, PAD]:
            self.vocab.setdefault(t, len(self.vocab))
        self.inv = {i: t for t, i in self.vocab.items()}
        self.bos_token_id, self.eos_token_id, self.pad_token_id = (self.vocab[t] for t in (BOS, EOS, PAD))
        self.pattern = re.compile("(" + "|".join(re.escape(t) for t in self.special_tokens) + ")")
        self.cache = {}

    @classmethod
    def train(cls, texts, n_merges, special_tokens):
        words = collections.Counter(w for t in texts for w in re.findall(r" ?[^ ]+", t))
        split = {w: tuple(w) for w in words}
        vocab = {c: i for i, c in enumerate(sorted({c for t in texts for c in t} | set("<|>startoftextendpad")))}
        merges = []
        for _ in range(n_merges):
            pairs = collections.Counter()
            for w, n in words.items():
                for a, b in zip(split[w], split[w][1:]):
                    pairs[a, b] += n
            if not pairs:
                break
            best = max(sorted(pairs), key=pairs.get)
            merges.append(best)
            vocab.setdefault("".join(best), len(vocab))
            split = {w: cls._merge(s, best) for w, s in split.items()}
        return cls(vocab, merges, special_tokens)

    @staticmethod
    def _merge(sym, pair):
        out, i = [], 0
        while i < len(sym):
            if i + 1 < len(sym) and (sym[i], sym[i + 1]) == pair:
                out.append(sym[i] + sym[i + 1])
                i += 2
            else:
                out.append(sym[i])
                i += 1
        return tuple(out)

    def _word(self, w):
        if w not in self.cache:
            s = tuple(w)
            while len(s) > 1:
                cand = [q for q in zip(s, s[1:]) if q in self.ranks]
                if not cand:
                    break
                s = self._merge(s, min(cand, key=self.ranks.get))
            self.cache[w] = [self.vocab[c] for c in s]
        return self.cache[w]

    def encode(self, text):
        ids = []
        for part in self.pattern.split(text):
            if part in self.special_tokens:
                ids.append(self.vocab[part])
            else:
                for w in re.findall(r" ?[^ ]+", part):
                    ids.extend(self._word(w))
        return ids

    def decode(self, ids):
        return "".join(self.inv[int(i)] for i in ids)

    def __call__(self, texts, max_length):
        rows, masks = [], []
        for t in texts:
            ids = self.encode(t)[:max_length]
            masks.append([1] * len(ids) + [0] * (max_length - len(ids)))
            rows.append(ids + [self.pad_token_id] * (max_length - len(ids)))
        return torch.tensor(rows), torch.tensor(masks)

    def save(self, path):
        with open(path, "w") as f:
            json.dump({"vocab": self.vocab, "merges": self.merges, "special_tokens": self.special_tokens,
                       "bos_token": BOS, "eos_token": EOS, "pad_token": PAD}, f)


class GPT(nn.Module):
    def __init__(self, n_vocab, dim=64, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(n_vocab, dim)
        self.pos = nn.Embedding(args.max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, n_vocab, bias=False)

    def forward(self, ids):
        t = ids.shape[1]
        causal = torch.triu(torch.full((t, t), float("-inf")), 1)
        h = self.tok(ids) + self.pos(torch.arange(t))
        return self.head(self.norm(self.blocks(h, mask=causal)))


def lm_loss(model, ids, mask):
    logits = model(ids[:, :-1])
    labels = ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def main():
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.output_dir, exist_ok=True)
    texts = corpus(672, 1)
    train_texts, val_texts = texts[:576], texts[576:]
    tokenizer = BPETokenizer.train(train_texts, args.merges, special_tokens=[EOS, PAD])
    tokenizer.save(os.path.join(args.output_dir, "tokenizer.json"))
    train_ids, train_mask = tokenizer([BOS + t + EOS for t in train_texts], args.max_len)
    val_ids, val_mask = tokenizer([BOS + t + EOS for t in val_texts], args.max_len)

    model = GPT(len(tokenizer.vocab))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    steps = len(train_ids) // args.batch_size
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=steps * args.epochs, pct_start=0.02)
    path = os.path.join(args.output_dir, "last.pt")
    begin = 0
    if os.path.exists(path):
        ck = torch.load(path, weights_only=False)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        begin = ck["epoch"]
        torch.set_rng_state(ck["rng"][0])
        np.random.set_state(ck["rng"][1])
        random.setstate(ck["rng"][2])
    for epoch in range(begin, args.epochs):
        model.train()
        for i, idx in enumerate(torch.randperm(len(train_ids)).split(args.batch_size)):
            loss = lm_loss(model, train_ids[idx], train_mask[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            if i % 4 == 0:
                print(f"epoch {epoch} step {i} loss {loss.item():.4f}")
        model.eval()
        with torch.no_grad():
            print(f"epoch {epoch} val loss {lm_loss(model, val_ids, val_mask).item():.4f}")
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "rng": (torch.get_rng_state(), np.random.get_state(), random.getstate())}, path + ".tmp")
        os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()
