"""Reading comprehension toy: the kind of question, then a passage; predict the start position of the answer."""
import argparse
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

VOCAB, LENGTH, KINDS = 40, 24, 3


def make_passages(n, seed):
    """Row: question kind, then a passage of distinct words; the answer is the word that the kind asks for
    (kind 0: the highest word, kind 1: the lowest, kind 2: the one nearest to the middle)."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, LENGTH), np.int64)
    y = np.zeros(n, np.int64)
    for i in range(n):
        passage = rng.permutation(VOCAB)[:LENGTH - 1]
        kind = int(rng.integers(KINDS))
        x[i, 0], x[i, 1:] = VOCAB + kind, passage
        y[i] = 1 + np.argmax([passage, -passage, -np.abs(passage - VOCAB / 2 + 0.25)][kind])
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class SelfAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        batch_size, l, _ = x.size()
        d = self.head_dim
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        heads = []
        for i in range(self.n_heads):
            s = slice(i * d, (i + 1) * d)
            w = F.softmax(q[..., s] @ k[..., s].transpose(1, 2) / d ** 0.5, dim=-1)
            heads.append(w @ v[..., s])
        heads = torch.stack(heads)
        x = heads.view(batch_size, l, -1)
        return self.wo(x)


class Block(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.att = SelfAttention(dim, n_heads)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = x + F.relu(self.conv(self.n1(x).transpose(1, 2)).transpose(1, 2))
        x = x + self.att(self.n2(x))
        return x + self.ffn(self.n3(x))


class QAModel(nn.Module):
    def __init__(self, dim=64, n_heads=4, blocks=2):
        super().__init__()
        self.emb = nn.Embedding(VOCAB + KINDS, dim)
        self.pos = nn.Parameter(torch.randn(LENGTH, dim) * 0.1)
        self.blocks = nn.ModuleList(Block(dim, n_heads) for _ in range(blocks))
        self.start = nn.Linear(dim, 1, bias=False)

    def forward(self, x):
        h = self.emb(x) + self.pos
        for b in self.blocks:
            h = b(h)
        return self.start(h).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=300)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=8)
    ap.add_argument("--ckpt", default="qa.pt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    order = torch.Generator()
    train = DataLoader(make_passages(1280, 1), args.batch_size, shuffle=True, generator=order)
    dev = DataLoader(make_passages(320, 2), 64)
    model = QAModel()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        start = ck["epoch"]
        print("resumed at epoch", start)
    for epoch in range(start, args.epochs):
        order.manual_seed(args.seed + 271 * epoch)
        model.train()
        for step, (x, y) in enumerate(train):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            if step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        model.eval()
        with torch.no_grad():
            em = torch.cat([(model(x).argmax(1) == y).float() for x, y in dev]).mean().item()
        print(f"epoch {epoch} dev EM {em:.4f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch + 1}, args.ckpt)


if __name__ == "__main__":
    main()
