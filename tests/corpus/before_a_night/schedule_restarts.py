"""Supervised fine-tuning of a small causal model on question/answer pairs; the loss counts the answer only."""
import argparse
import glob
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789 ?:|"
STOI = {c: i + 1 for i, c in enumerate(ALPHABET)}
MAX_LEN = 28


def make_pairs(n, seed):
    """Small skills: reverse a word, its first letter, its length, sort its letters."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        w = "".join(rng.choice("abcdefgh") for _ in range(rng.randint(2, 6)))
        task = rng.choice(["reverse", "first", "length", "sorted"])
        ans = {"reverse": w[::-1], "first": w[0], "length": str(len(w)), "sorted": "".join(sorted(w))}[task]
        rows.append((f"{task} {w}?", f":{ans}|"))
    return rows


def collate(rows):
    ids = torch.zeros(len(rows), MAX_LEN, dtype=torch.long)
    mask = torch.zeros(len(rows), MAX_LEN)
    for r, (q, a) in enumerate(rows):
        seq = [STOI[c] for c in q + a][:MAX_LEN]
        ids[r, :len(seq)] = torch.tensor(seq)
        mask[r, len(q) + 1:len(seq)] = 1.0
    return ids, mask


class CausalLM(nn.Module):
    def __init__(self, vocab=len(ALPHABET) + 1, dim=64, heads=4, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(MAX_LEN, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 3 * dim, dropout=0.05, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.lm_head = nn.LayerNorm(dim), nn.Linear(dim, vocab)

    def forward(self, ids):
        t = ids.size(1)
        causal = torch.triu(torch.full((t, t), float("-inf")), 1)
        h = self.body(self.tok(ids) + self.pos(torch.arange(t)), mask=causal)
        return self.lm_head(self.norm(h))


def sft_loss(model, ids, mask):
    nll = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    m = mask[:, 1:].flatten()
    return (nll * m).sum() / m.sum()


class OptimizerParamScheduler:
    """Linear warmup, then cosine decay to min_lr; counts samples."""

    def __init__(self, optimizer, max_lr, min_lr, warmup_samples, decay_samples):
        self.optimizer, self.max_lr, self.min_lr = optimizer, max_lr, min_lr
        self.warmup, self.decay = warmup_samples, decay_samples
        self.num_samples = 0
        self.step(0)

    def get_lr(self):
        if self.num_samples < self.warmup:
            return self.max_lr * (self.num_samples + 1) / (self.warmup + 1)
        frac = min(1.0, (self.num_samples - self.warmup) / (self.decay - self.warmup))
        return self.min_lr + 0.5 * (self.max_lr - self.min_lr) * (1 + math.cos(math.pi * frac))

    def step(self, increment):
        self.num_samples += increment
        for group in self.optimizer.param_groups:
            group["lr"] = self.get_lr()


def save_checkpoint(path, rollout_id, model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rollout_id": rollout_id,
                "rng": torch.get_rng_state()}, path)


def load_checkpoint(path, model, optimizer):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    return state["rollout_id"] + 1


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--num-rollout", type=int, default=8000)
    p.add_argument("--global-batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=1.5e-3)
    p.add_argument("--min-lr", type=float, default=1e-5)
    p.add_argument("--lr-warmup-iters", type=int, default=20)
    p.add_argument("--save-interval", type=int, default=20)
    p.add_argument("--eval-interval", type=int, default=20)
    p.add_argument("--load", default="sft_latest.pt")
    p.add_argument("--seed", type=int, default=1234)
    a = p.parse_args()
    random.seed(a.seed)
    np.random.seed(a.seed)
    torch.manual_seed(a.seed)

    data, held_out = make_pairs(6400, 1), collate(make_pairs(256, 2))
    model = CausalLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr, weight_decay=0.01, betas=(0.9, 0.98))
    start = load_checkpoint(a.load, model, optimizer) if glob.glob(a.load) else 0
    scheduler = OptimizerParamScheduler(optimizer, a.lr, a.min_lr, a.lr_warmup_iters * a.global_batch_size,
                                        a.num_rollout * a.global_batch_size)
    if start > 0:
        print(f"loaded {a.load}, continue at rollout {start}")

    per_epoch = len(data) // a.global_batch_size
    for rollout_id in range(start, a.num_rollout):
        epoch, pos = divmod(rollout_id, per_epoch)
        order = list(range(len(data)))
        random.Random(a.seed + epoch).shuffle(order)
        ids, mask = collate([data[i] for i in order[pos * a.global_batch_size:(pos + 1) * a.global_batch_size]])
        model.train()
        lr = optimizer.param_groups[0]["lr"]
        loss = sft_loss(model, ids, mask)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step(increment=a.global_batch_size)
        if (rollout_id + 1) % 5 == 0:
            print(f"rollout {rollout_id} train/loss {loss.item():.4f} train/lr {lr:.3e}", flush=True)
        if (rollout_id + 1) % a.eval_interval == 0:
            model.eval()
            with torch.no_grad():
                print(f"rollout {rollout_id} eval/loss {sft_loss(model, *held_out).item():.4f}", flush=True)
        if (rollout_id + 1) % a.save_interval == 0:
            save_checkpoint(a.load, rollout_id, model, optimizer)


if __name__ == "__main__":
    main()
