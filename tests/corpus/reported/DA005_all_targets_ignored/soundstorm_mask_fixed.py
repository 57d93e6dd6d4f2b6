"""Masked generation of codec tokens from semantic tokens (one codebook), trained MaskGIT style."""
import argparse
import math
import time
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


def cosine_schedule(t):
    return torch.cos(t * math.pi / 2)


def get_mask_subset(seq_len, batch, prob, generator=None):
    """a random subset of every sequence, the same number of positions for all"""
    num = max(1, int(prob * seq_len))
    order = torch.rand(batch, seq_len, generator=generator).argsort(dim=-1).argsort(dim=-1)
    return order < num


class CodecTokens(Dataset):
    """Semantic tokens follow a sparse Markov chain; the acoustic token depends on the semantic token,
    its neighbour and the speaker (which can be heard from the acoustic tokens only)."""

    def __init__(self, num, length, num_semantic, num_codes, seed, table_seed=0):
        g = torch.Generator().manual_seed(table_seed)
        nxt = torch.randint(num_semantic, (num_semantic, 3), generator=g)
        table = torch.randint(num_codes, (8, num_semantic, 4), generator=g)
        g = torch.Generator().manual_seed(seed)
        sem = torch.zeros(num, length, dtype=torch.long)
        sem[:, 0] = torch.randint(num_semantic, (num,), generator=g)
        for i in range(1, length):
            pick = torch.randint(3, (num,), generator=g)
            sem[:, i] = nxt[sem[:, i - 1], pick]
        speaker = torch.randint(8, (num,), generator=g)
        context = torch.roll(sem, 1, dims=1) % 4
        self.codes = table[speaker[:, None], sem, context]
        noise = torch.rand(num, length, generator=g) < 0.03
        self.codes = torch.where(noise, torch.randint(num_codes, self.codes.shape, generator=g), self.codes)
        self.semantic = sem

    def __len__(self):
        return len(self.codes)

    def __getitem__(self, i):
        return self.semantic[i], self.codes[i]


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(self.norm(x)).chunk(3, dim=-1))
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


def FeedForward(dim, mult=4):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * mult), nn.GELU(), nn.Linear(dim * mult, dim))


class SoundStorm(nn.Module):
    def __init__(self, *, num_semantic, num_codes, seq_len, dim=96, depth=3, heads=4, ignore_index=-1):
        super().__init__()
        self.mask_id = num_codes
        self.ignore_index = ignore_index
        self.semantic_emb = nn.Embedding(num_semantic, dim)
        self.code_emb = nn.Embedding(num_codes + 1, dim)
        self.pos_emb = nn.Parameter(torch.randn(seq_len, dim) * 0.02)
        self.layers = nn.ModuleList([nn.ModuleList([Attention(dim, heads), FeedForward(dim)]) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.to_logits = nn.Linear(dim, num_codes)

    def net(self, semantic, codes):
        x = self.semantic_emb(semantic) + self.code_emb(codes) + self.pos_emb
        for attn, ff in self.layers:
            x = x + attn(x)
            x = x + ff(x)
        return self.to_logits(self.norm(x))

    def forward(self, semantic, codes, generator=None):
        b, n = codes.shape
        rand_time = torch.rand((), generator=generator)
        mask = get_mask_subset(n, b, cosine_schedule(rand_time), generator)
        masked = torch.where(mask, self.mask_id, codes)
        labels = codes.masked_fill(~mask, self.ignore_index)
        logits = self.net(semantic, masked)
        loss = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=self.ignore_index)
        hits = (logits.argmax(-1) == codes)[mask].sum().item()
        return loss, hits, mask.sum().item()


class Trainer:
    def __init__(self, model, train_dl, valid_dl, args):
        self.model, self.train_dl, self.valid_dl, self.args = model, train_dl, valid_dl, args
        decay = [p for p in model.parameters() if p.ndim >= 2]
        rest = [p for p in model.parameters() if p.ndim < 2]
        self.optim = torch.optim.AdamW([dict(params=decay), dict(params=rest, weight_decay=0.0)],
                                       lr=args.lr, weight_decay=1e-2, betas=(0.9, 0.98))
        total = args.epochs * len(train_dl)
        self.sched = torch.optim.lr_scheduler.LambdaLR(
            self.optim, lambda s: min(1.0, (s + 1) / 60) * (0.05 + 0.95 * max(0.0, 1 - s / total)))
        self.steps = 0

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        g = torch.Generator().manual_seed(0)
        hits = total = 0
        for semantic, codes in self.valid_dl:
            # half of the tokens masked, the same ones each time
            mask = get_mask_subset(codes.shape[1], codes.shape[0], 0.5, g)
            pred = self.model.net(semantic, torch.where(mask, self.model.mask_id, codes)).argmax(-1)
            hits += (pred == codes)[mask].sum().item()
            total += mask.sum().item()
        self.model.train()
        return hits / total

    def train(self):
        start = time.time()
        for epoch in range(self.args.epochs):
            accum, hits, total = 0.0, 0, 0
            self.model.train()
            for semantic, codes in self.train_dl:
                loss, h, t = self.model(semantic, codes)
                self.optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optim.step()
                self.sched.step()
                self.steps += 1
                accum, hits, total = accum + loss.item(), hits + h, total + t
                if self.steps % 40 == 0:
                    print(f"{self.steps}: loss: {loss.item():.4f}")
            print(f"epoch {epoch}: train loss {accum / len(self.train_dl):.4f} acc {hits / total:.4f} | "
                  f"valid acc at half mask {self.validate():.4f} | {time.time() - start:.0f}s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seq-len", type=int, default=32)
    parser.add_argument("--num-semantic", type=int, default=40)
    parser.add_argument("--num-codes", type=int, default=64)
    parser.add_argument("--num-train", type=int, default=5120)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(5)

    dataset = partial(CodecTokens, length=args.seq_len, num_semantic=args.num_semantic, num_codes=args.num_codes)
    train_dl = DataLoader(dataset(args.num_train, seed=1), args.batch_size, shuffle=True, drop_last=True)
    valid_dl = DataLoader(dataset(320, seed=2), 64)
    model = SoundStorm(num_semantic=args.num_semantic, num_codes=args.num_codes, seq_len=args.seq_len)
    Trainer(model, train_dl, valid_dl, args).train()


if __name__ == "__main__":
    main()
