"""Pre-train a small decoder-only language model on a token stream."""
import argparse
import math
import os
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    vocab_size: int = 48
    seq_len: int = 48
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64


def token_stream(length, seed, cfg):
    """Second-order source: each pair of tokens allows three successors."""
    table = np.random.default_rng(2024).integers(0, cfg.vocab_size, (cfg.vocab_size, 4, 3))
    rng = np.random.default_rng(seed)
    choice = rng.choice(3, size=length, p=[0.8, 0.15, 0.05])
    out = np.zeros(length, dtype=np.int64)
    a, b = 0, 1
    for i in range(length):
        a, b = b, table[b, a % 4, choice[i]]
        out[i] = b
    return out


def make_dataset(length, seed, cfg):
    stream = token_stream(length, seed, cfg)
    n = (len(stream) - 1) // cfg.seq_len
    x = torch.from_numpy(stream[:n * cfg.seq_len]).view(n, cfg.seq_len)
    y = torch.from_numpy(stream[1:n * cfg.seq_len + 1]).view(n, cfg.seq_len)
    return TensorDataset(x, y)


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n_head = cfg.n_head
        self.qkv = nn.Linear(cfg.n_embd, 3 * cfg.n_embd)
        self.out = nn.Linear(cfg.n_embd, cfg.n_embd)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.n_head, c // self.n_head).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.n_head)
        weights = scores.softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(cfg.n_embd), nn.LayerNorm(cfg.n_embd)
        self.attn = Attention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.n_embd, 4 * cfg.n_embd), nn.GELU(), nn.Linear(4 * cfg.n_embd, cfg.n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class LanguageModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.pos = nn.Embedding(cfg.seq_len, cfg.n_embd)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.ln = nn.LayerNorm(cfg.n_embd)
        self.head = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def lm_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.no_grad()
def perplexity(model, loader):
    model.eval()
    losses = [lm_loss(model(x), y).item() for x, y in loader]
    return math.exp(sum(losses) / len(losses))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=150)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--warmup", type=int, default=60)
    ap.add_argument("--tokens", type=int, default=46081)
    ap.add_argument("--seed", type=int, default=1337)
    ap.add_argument("--ckpt", default="lm.ckpt")
    args = ap.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    cfg = Config()
    generator = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(make_dataset(args.tokens, 1, cfg), args.batch_size, shuffle=True, generator=generator)
    val_loader = DataLoader(make_dataset(args.tokens // 10, 2, cfg), args.batch_size)
    model = LanguageModel(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.05)
    total = args.epochs * len(train_loader)

    def schedule(step):
        if step < args.warmup:
            return (step + 1) / args.warmup
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - args.warmup) / (total - args.warmup)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    start = 0
    if os.path.exists(args.ckpt):
        state = torch.load(args.ckpt)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        generator.set_state(state["generator"])
        torch.set_rng_state(state["rng"])
        start = state["epoch"] + 1
    for epoch in range(start, args.epochs):
        model.train()
        running = 0.0
        for x, y in train_loader:
            loss = lm_loss(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            running += loss.item()
        print(f"epoch {epoch} loss {running / len(train_loader):.4f} val_ppl {perplexity(model, val_loader):.3f}",
              flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "generator": generator.get_state(),
                    "rng": torch.get_rng_state(), "epoch": epoch}, args.ckpt)


if __name__ == "__main__":
    main()
