"""Character language model with normalised linear attention (chunked running sums)."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SUBJECTS = "the farmer|a sailor|my sister|the old king|every teacher|one soldier".split("|")
VERBS = "sells|paints|finds|carries|breaks|admires".split("|")
OBJECTS = "a green boat|two heavy stones|the silver ring|some warm bread|an empty house|three wild horses".split("|")
ENDS = "in the morning|near the river|without a word|before the war|for his brother|under the bridge".split("|")


def make_text(n, seed):
    rng = random.Random(seed)
    return " ".join(" ".join(map(rng.choice, (SUBJECTS, VERBS, OBJECTS, ENDS))) + "." for _ in range(n))


def chunk_global_cumsum(x, chunk=16):
    """Running sum over time computed chunk by chunk into a preallocated buffer."""
    with torch.no_grad():
        out = torch.empty_like(x)
        carry = torch.zeros_like(x[:, :, 0])
        for s in range(0, x.shape[2], chunk):
            part = x[:, :, s:s + chunk].cumsum(2) + carry.unsqueeze(2)
            out[:, :, s:s + chunk] = part
            carry = part[:, :, -1]
    return out


class GlobalCumsum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return chunk_global_cumsum(x)

    @staticmethod
    def backward(ctx, grad):
        return chunk_global_cumsum(grad.flip(2)).flip(2)


def causal_product(q, k, v):
    score = q @ k.transpose(-2, -1)
    return score.tril() @ v


def normalize_with_z_state(q, k, o):
    k_cum = chunk_global_cumsum(k)
    return o / ((q * k_cum).sum(-1, keepdim=True) + 1e-6)


class LinearAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.sharpness = heads, 4.0
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        q, k = (self.sharpness * q).softmax(-1), (self.sharpness * k).clamp(max=20).exp()
        o = normalize_with_z_state(q, k, causal_product(q, k, v))
        return self.proj(o.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = LinearAttention(dim, heads)
        self.shift = nn.Conv1d(dim, dim, 4, padding=3, groups=dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x):
        h = self.n1(x)
        h = self.shift(h.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2)
        x = x + self.attn(h)
        return x + self.mlp(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, dim=96, layers=2, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def lm_loss(model, ids):
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=8000)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--ctx", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--warmup", type=int, default=20)
    p.add_argument("--eval-every", type=int, default=25)
    p.add_argument("--seed", type=int, default=1337)
    p.add_argument("--ckpt", default="charlm.pt")
    args = p.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    train_text, val_text = make_text(4000, 1), make_text(200, 2)
    chars = sorted(set(train_text))
    stoi = {c: i for i, c in enumerate(chars)}
    train = torch.tensor([stoi[c] for c in train_text])
    val = torch.tensor([stoi[c] for c in val_text])
    val = val[:len(val) // (args.ctx + 1) * (args.ctx + 1)].view(-1, args.ctx + 1)[:64]

    model = CharLM(len(chars))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(
        (s + 1) / args.warmup, 0.55 + 0.45 * math.cos(math.pi * min(1.0, s / args.steps))))
    gen = torch.Generator().manual_seed(args.seed)
    start = 0
    if os.path.exists(args.ckpt):
        ck = torch.load(args.ckpt)
        for name, part in (("model", model), ("opt", opt), ("sched", sched)):
            part.load_state_dict(ck[name])
        gen.set_state(ck["gen"])
        start = ck["step"]
    for step in range(start, args.steps):
        at = torch.randint(len(train) - args.ctx - 1, (args.batch,), generator=gen)
        loss = lm_loss(model, torch.stack([train[i:i + args.ctx + 1] for i in at.tolist()]))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
        if (step + 1) % args.eval_every == 0:
            model.eval()
            with torch.no_grad():
                print(f"step {step} val loss {lm_loss(model, val).item():.4f}", flush=True)
            model.train()
            torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "sched": sched.state_dict(),
                        "gen": gen.get_state(), "step": step + 1}, args.ckpt)


if __name__ == "__main__":
    main()
