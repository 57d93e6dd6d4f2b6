"""Extractive summarisation toy: find the sentence of a document that answers the query; features cached on disk."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

WORDS, SENTENCES, LENGTH, QUERY = 400, 10, 8, 4


def write_documents(n, seed):
    """The gold sentence shares three words with the query, others share at most two."""
    rng = np.random.default_rng(seed)
    docs, queries, gold = [], [], []
    for _ in range(n):
        q = rng.choice(np.arange(1, WORDS), QUERY, replace=False)
        d = rng.integers(1, WORDS, (SENTENCES, LENGTH))
        g = int(rng.integers(SENTENCES))
        for s in range(SENTENCES):
            k = 3 if s == g else int(rng.integers(0, 3))
            d[s, rng.choice(LENGTH, k, replace=False)] = rng.choice(q, k, replace=False)
        docs.append([" ".join(f"w{t}" for t in row) for row in d])
        queries.append(" ".join(f"w{t}" for t in q))
        gold.append(g)
    return docs, queries, gold


def load_split(split, n, seed, cache_dir):
    os.makedirs(cache_dir, exist_ok=True)
    cached = os.path.join(cache_dir, "features.npz")
    if os.path.exists(cached):
        f = np.load(cached)
        doc, query, gold = f["doc"], f["query"], f["gold"]
    else:
        docs, queries, gold = write_documents(n, seed)
        doc = np.array([[[int(w[1:]) for w in s.split()] for s in d] for d in docs])
        query = np.array([[int(w[1:]) for w in q.split()] for q in queries])
        gold = np.array(gold)
        np.savez(cached, doc=doc, query=query, gold=gold)
    print(f"{split}: {len(gold)} documents from {cached}")
    return TensorDataset(torch.from_numpy(doc), torch.from_numpy(query), torch.from_numpy(gold))


class Scorer(nn.Module):
    """Words of a sentence attend to the words of the query; the sentence score is a sum over words."""

    def __init__(self, dim=64):
        super().__init__()
        self.emb = nn.Embedding(WORDS, dim)
        self.q = nn.Linear(dim, dim, bias=False)
        nn.init.eye_(self.q.weight)
        self.match = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1, bias=False))

    def forward(self, doc, query):
        d = F.normalize(self.emb(doc), dim=-1)
        q = F.normalize(self.q(self.emb(query)), dim=-1)
        sim = torch.einsum("bslk,bqk->bslq", d, q)
        feats = torch.stack([sim.max(-1).values, sim.mean(-1)], -1)
        return 3 * self.match(feats).squeeze(-1).sum(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=200)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--cache_dir", default="cache")
    ap.add_argument("--seed", type=int, default=10)
    ap.add_argument("--ckpt", default="scorer.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    order = torch.Generator()
    train = DataLoader(load_split("train", 960, 1, args.cache_dir), args.batch_size, shuffle=True, generator=order)
    val = DataLoader(load_split("val", 320, 2, args.cache_dir), 64)
    net = Scorer()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    start, best = 0, 0.0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        net.load_state_dict(ck["net"])
        opt.load_state_dict(ck["opt"])
        start, best = ck["epoch"], ck["best"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 29 * epoch)
        net.train()
        for step, (doc, query, gold) in enumerate(train):
            loss = F.cross_entropy(net(doc, query), gold)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        net.eval()
        with torch.no_grad():
            out = [(F.cross_entropy(s, g, reduction="none"), (s.argmax(1) == g).float())
                   for s, g in ((net(d, q), g) for d, q, g in val)]
        loss, acc = torch.cat([o[0] for o in out]).mean().item(), torch.cat([o[1] for o in out]).mean().item()
        best = max(best, acc)
        print(f"epoch {epoch} val loss {loss:.4f} acc {acc:.4f} best {best:.4f}", flush=True)
        torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "epoch": epoch + 1, "best": best}, args.ckpt)


if __name__ == "__main__":
    main()
