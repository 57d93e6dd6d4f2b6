"""Decoder-only transformer over symbolic music events (synthetic counterpoint), next-event prediction."""
import argparse
import math
import os
import random
from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def options():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--epochs", type=int, default=250)
    ap.add_argument("--bsz", type=int, default=24)
    ap.add_argument("--seq", type=int, default=48)
    ap.add_argument("--max-seq", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--seed", type=int, default=21)
    ap.add_argument("--save", default="music.pt")
    return ap.parse_args()


N_EVENTS = 64


def compose(n, length, seed):
    rng = np.random.default_rng(seed)
    steps = np.array([-2, -1, 1, 2, 3])
    out = np.zeros((n, length), dtype=np.int64)
    for i in range(n):
        key, pos, motif = rng.integers(0, 12), rng.integers(10, 40), rng.choice(steps, 4)
        for t in range(0, length, 2):
            if rng.random() < 0.15:
                pos += rng.choice(steps)
            pos = int(np.clip(pos + motif[(t // 2) % 4] * (1 if pos < 32 else -1), 4, 55))
            out[i, t] = pos
            out[i, t + 1] = np.clip(pos + (key % 5) - 2, 0, N_EVENTS - 1)
    return torch.from_numpy(out)


@dataclass
class AttentionMask:
    """An attention mask of which sub-sequences can be taken; `causal` marks a lower-triangular one."""
    seq_len: int
    causal: bool = False
    bias: Optional[torch.Tensor] = None

    def narrow(self, seq_len):
        bias = None if self.bias is None else self.bias[:seq_len, :seq_len]
        return AttentionMask(seq_len, self.causal, bias)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.bias, is_causal=mask.causal and mask.bias is None)
        return self.proj(o.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mask):
        x = x + self.attn(self.n1(x), mask)
        return x + self.ffn(self.n2(x))


class MusicModel(nn.Module):
    def __init__(self, max_seq, dim=64, heads=4, layers=2):
        super().__init__()
        self.emb = nn.Embedding(N_EVENTS, dim)
        self.pos = nn.Parameter(torch.randn(max_seq, dim) * 0.02)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, N_EVENTS)
        self.self_attn_mask = AttentionMask(max_seq, causal=True)

    def forward(self, events):
        t = events.shape[1]
        mask = self.self_attn_mask
        if t < mask.seq_len:
            mask = mask.narrow(t)
        x = self.emb(events) + self.pos[:t]
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


def nll(model, batch):
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def main():
    opt = options()
    random.seed(opt.seed)
    np.random.seed(opt.seed)
    torch.manual_seed(opt.seed)
    g = torch.Generator().manual_seed(opt.seed)
    train = DataLoader(TensorDataset(compose(576, opt.seq, 5)), opt.bsz, shuffle=True, generator=g)
    val = DataLoader(TensorDataset(compose(96, opt.seq, 6)), 48)
    model = MusicModel(opt.max_seq)
    optim = torch.optim.AdamW(model.parameters(), lr=opt.lr, weight_decay=0.01)
    total, warm = opt.epochs * len(train), 20
    sched = torch.optim.lr_scheduler.LambdaLR(
        optim, lambda s: min((s + 1) / warm, 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, s / total)))))
    start = 0
    if os.path.exists(opt.save):
        c = torch.load(opt.save, weights_only=False)
        model.load_state_dict(c["model"])
        optim.load_state_dict(c["optim"])
        sched.load_state_dict(c["sched"])
        start = c["epoch"]
        torch.set_rng_state(c["rng"]["t"])
        np.random.set_state(c["rng"]["n"])
        random.setstate(c["rng"]["p"])
        g.set_state(c["rng"]["g"])
        print("resuming at epoch", start)
    for epoch in range(start, opt.epochs):
        model.train()
        for i, (b,) in enumerate(train):
            loss = nll(model, b)
            optim.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
            sched.step()
            if i % 4 == 0:
                print(f"epoch {epoch} iter {i} nll {loss.item():.4f}")
        model.eval()
        with torch.no_grad():
            v = sum(nll(model, b).item() for (b,) in val) / len(val)
        print(f"epoch {epoch} val nll {v:.4f}")
        torch.save({"model": model.state_dict(), "optim": optim.state_dict(), "sched": sched.state_dict(), "epoch": epoch + 1,
                    "rng": {"t": torch.get_rng_state(), "n": np.random.get_state(), "p": random.getstate(), "g": g.get_state()}},
                   opt.save + ".tmp")
        os.replace(opt.save + ".tmp", opt.save)


if __name__ == "__main__":
    main()
