"""CTR prediction on click logs that come in blocks; the feature tokenizer grows block by block."""
import argparse
import json
import os
import random
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FIELDS = ["user", "item", "category", "hour"]


def read_block(block, rows=800):
    """One day of logs: later days bring new users and items. (dict of columns, clicks)"""
    rng = np.random.default_rng(1000 + block)
    taste = np.random.default_rng(5)
    u_bias, i_bias = 1.1 * taste.normal(size=400), 1.4 * taste.normal(size=300)
    user = rng.integers(block * 60, block * 60 + 120, rows)
    item = rng.integers(block * 40, block * 40 + 90, rows)
    cat = item % 12
    hour = rng.integers(0, 24, rows)
    logit = u_bias[user] + i_bias[item] + 0.5 * np.cos(hour / 24 * 6.28 + cat) - 0.3
    click = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    cols = {"user": [f"u{v}" for v in user], "item": [f"i{v}" for v in item],
            "category": [f"c{v}" for v in cat], "hour": [f"h{v}" for v in hour]}
    return cols, click


class Tokenizer:
    """Word to id of one field. 0 is padding; the out-of-vocabulary id follows the first block's words."""

    def __init__(self, pad_token="__PAD__", oov_token="__OOV__"):
        self.pad_token, self.oov_token = pad_token, oov_token
        self.vocab = {}

    def build_vocab(self, word_counts):
        ranked = sorted(word_counts.items(), key=lambda kv: (-kv[1], kv[0]))
        self.vocab = {self.pad_token: 0}
        for i, (w, _) in enumerate(ranked):
            self.vocab[w] = i + 1
        self.vocab[self.oov_token] = len(self.vocab)

    def update_vocab(self, words):
        new_words = sorted(w for w in set(words) if w not in self.vocab)
        next_id = max(self.vocab.values()) + 1
        for i, w in enumerate(new_words):
            self.vocab[w] = next_id + i

    def encode(self, words):
        oov = self.vocab[self.oov_token]
        return [self.vocab.get(w, oov) for w in words]

    def decode(self, ids):
        inv = {i: w for w, i in self.vocab.items()}
        return [inv[int(i)] for i in ids]

    def vocab_size(self):
        return max(self.vocab.values()) + 1

    def __len__(self):
        return len(self.vocab)


class FeatureProcessor:
    def __init__(self):
        self.tokenizers = {f: Tokenizer() for f in FIELDS}

    def fit(self, blocks):
        for n, (cols, _) in enumerate(blocks):
            for f, tok in self.tokenizers.items():
                if n == 0:
                    tok.build_vocab(Counter(cols[f]))
                else:
                    tok.update_vocab(cols[f])

    def transform(self, cols):
        return torch.tensor([self.tokenizers[f].encode(cols[f]) for f in FIELDS]).t().contiguous()

    def save(self, path):
        with open(path, "w") as fh:
            json.dump({f: t.vocab for f, t in self.tokenizers.items()}, fh)


class DeepFM(nn.Module):
    def __init__(self, sizes, dim=8, hidden=64):
        super().__init__()
        self.first = nn.ModuleList(nn.Embedding(s, 1, padding_idx=0) for s in sizes)
        self.embed = nn.ModuleList(nn.Embedding(s, dim, padding_idx=0) for s in sizes)
        for e in self.embed:
            nn.init.normal_(e.weight, std=0.05)
        for e in self.first:
            nn.init.zeros_(e.weight)
        self.mlp = nn.Sequential(nn.Linear(dim * len(sizes), hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        lin = sum(e(x[:, i]) for i, e in enumerate(self.first)).squeeze(-1)
        v = torch.stack([e(x[:, i]) for i, e in enumerate(self.embed)], 1)
        fm = 0.5 * (v.sum(1) ** 2 - (v ** 2).sum(1)).sum(1)
        return lin + fm + self.mlp(v.flatten(1)).squeeze(-1) + self.bias


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch_size", type=int, default=160)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--blocks", type=int, default=5)
    ap.add_argument("--seed", type=int, default=2026)
    ap.add_argument("--dir", default="deepfm_ctr")
    a = ap.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)
    os.makedirs(a.dir, exist_ok=True)

    blocks = [read_block(b) for b in range(a.blocks)]
    proc = FeatureProcessor()
    proc.fit(blocks)
    proc.save(os.path.join(a.dir, "tokenizer.json"))
    x = torch.cat([proc.transform(c) for c, _ in blocks])
    y = torch.cat([torch.from_numpy(k) for _, k in blocks])
    perm = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    val, trn = perm[:400], perm[400:]
    model = DeepFM([t.vocab_size() for t in proc.tokenizers.values()])
    opt = torch.optim.Adam(model.parameters(), lr=a.lr, weight_decay=1e-4)
    path, start = os.path.join(a.dir, "model.pt"), 0
    if os.path.exists(path):
        s = torch.load(path)
        model.load_state_dict(s["model"])
        opt.load_state_dict(s["opt"])
        torch.set_rng_state(s["rng"])
        start = s["epoch"]
    for epoch in range(start, a.epochs):
        model.train()
        order = trn[torch.randperm(len(trn), generator=torch.Generator().manual_seed(a.seed + epoch))]
        tot = 0.0
        for idx in order.split(a.batch_size):
            opt.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(x[idx]), y[idx])
            loss.backward()
            opt.step()
            tot += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            vl = F.binary_cross_entropy_with_logits(model(x[val]), y[val]).item()
        print(f"epoch {epoch} logloss {tot / len(trn):.4f} val logloss {vl:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "rng": torch.get_rng_state(),
                    "epoch": epoch + 1}, path)


if __name__ == "__main__":
    main()
