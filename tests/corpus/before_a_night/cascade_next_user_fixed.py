"""Information diffusion: predict the next user that joins a cascade."""
import argparse
import math
import os
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

N_USERS, PAD = 180, 0


def make_cascades(n, seed, max_len=24):
    """Cascades follow a sparse follower graph; the choice among followers depends on the last two users."""
    rng = np.random.default_rng(seed)
    graph = np.random.default_rng(99).integers(1, N_USERS, size=(N_USERS, 3))
    rows = np.zeros((n, max_len), np.int64)
    for r in rows:
        length = int(rng.integers(max_len // 2, max_len + 1))
        r[0], r[1] = rng.integers(1, N_USERS, 2)
        for t in range(2, length):
            pick = (r[t - 2] + r[t - 1]) % 3 if rng.random() > 0.05 else rng.integers(3)
            r[t] = graph[r[t - 1], pick]
    return torch.from_numpy(rows)


class TransformerBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        score = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        score = score.masked_fill(future, float("-inf"))
        x = x + self.proj((score.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class CascadeModel(nn.Module):
    def __init__(self, dim=64, heads=4, layers=2, max_len=24, n_intents=4):
        super().__init__()
        self.user = nn.Embedding(N_USERS, dim, padding_idx=PAD)
        self.position = nn.Embedding(max_len, dim)
        self.seq_encoder = nn.ModuleList(TransformerBlock(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.output = nn.Linear(dim, N_USERS)

    def forward(self, seq):
        h = self.user(seq) + self.position(torch.arange(seq.shape[1]))
        for block in self.seq_encoder:
            h = block(h)
        return self.output(self.norm(h))


def cascade_loss(model, rows):
    logits = model(rows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), ignore_index=PAD)


@torch.no_grad()
def hits_at(model, rows, k=1):
    model.eval()
    hit = total = 0
    for part in rows.split(100):
        top = model(part[:, :-1]).topk(k, -1).indices
        want = part[:, 1:]
        mask = want != PAD
        hit += ((top == want.unsqueeze(-1)).any(-1) & mask).sum().item()
        total += mask.sum().item()
    model.train()
    return hit / total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--batch", type=int, default=48)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=2024)
    p.add_argument("--save", default="cascade.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train, val = make_cascades(1200, args.seed), make_cascades(200, args.seed + 1)
    model = CascadeModel()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    steps = math.ceil(len(train) / args.batch)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.epochs * steps, eta_min=1e-5)
    start = 0
    if os.path.exists(args.save):
        ck = torch.load(args.save)
        model.load_state_dict(ck["model"])
        opt.load_state_dict(ck["opt"])
        sched.load_state_dict(ck["sched"])
        start = ck["epoch"] + 1
    gen = torch.Generator()
    for epoch in range(start, args.epochs):
        gen.manual_seed(args.seed + epoch)
        for step, idx in enumerate(torch.randperm(len(train), generator=gen).split(args.batch)):
            loss = cascade_loss(model, train[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        print(f"epoch {epoch} val hits@1 {hits_at(model, val):.3f} hits@10 {hits_at(model, val, 10):.3f}", flush=True)
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(), "epoch": epoch},
                   args.save)


if __name__ == "__main__":
    main()
