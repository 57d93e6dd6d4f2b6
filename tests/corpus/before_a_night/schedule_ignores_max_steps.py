"""Train a draft model for speculative decoding against the logits of a fixed verifier."""
import argparse
import math
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, HIDDEN, LENGTH = 80, 48, 40


class Verifier:
    """A frozen language model; here a table of next-token logits and hidden states."""

    def __init__(self, seed):
        g = torch.Generator().manual_seed(seed)
        self.states = torch.randn(VOCAB, HIDDEN, generator=g)
        out = torch.randn(HIDDEN, VOCAB, generator=g)
        self.logits = self.states @ out * (2.5 / math.sqrt(HIDDEN))

    def generate(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        ids = torch.empty(n, LENGTH, dtype=torch.long)
        ids[:, 0] = torch.randint(VOCAB, (n,), generator=g)
        for t in range(1, LENGTH):
            ids[:, t] = torch.multinomial(self.logits[ids[:, t - 1]].softmax(1), 1, generator=g).squeeze(1)
        return ids


class DraftModel(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.fuse = nn.Linear(dim + HIDDEN, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.lm_head = nn.Linear(dim, VOCAB)

    def forward(self, ids, previous_hidden):
        x = self.fuse(torch.cat([self.embed(ids), previous_hidden], dim=-1))
        h, _ = self.rnn(x)
        x = x + h
        return self.lm_head(x + self.mlp(self.norm(x)))


def draft_loss(model, verifier, ids):
    hidden = torch.cat([torch.zeros(len(ids), 1, HIDDEN), verifier.states[ids[:, :-1]]], dim=1)
    logp = F.log_softmax(model(ids, hidden), dim=-1)
    target = F.log_softmax(verifier.logits[ids], dim=-1)
    return F.kl_div(logp.flatten(0, 1), target.flatten(0, 1), log_target=True, reduction="batchmean")


def resolve_scheduler_steps(cfg, train_loader_len):
    if cfg.scheduler_total_steps is not None:
        total = cfg.scheduler_total_steps
    else:
        total = cfg.epochs * train_loader_len
    warmup = cfg.scheduler_warmup_steps
    if warmup is None:
        warmup = total // 100
    return warmup, total


def cosine_with_warmup(optimizer, warmup, total):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        return max(0.01, 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, total - warmup)))))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2000)
    p.add_argument("--max-steps", type=int, default=12000)
    p.add_argument("--scheduler-total-steps", type=int, default=None)
    p.add_argument("--scheduler-warmup-steps", type=int, default=None)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--save-path", default="draft_ckpt.pt")
    cfg = p.parse_args()
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)

    verifier = Verifier(cfg.seed + 100)
    train = verifier.generate(800, cfg.seed + 1)
    val = verifier.generate(128, cfg.seed + 2)
    per_epoch = math.ceil(len(train) / cfg.batch_size)

    model = DraftModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    warmup, total = resolve_scheduler_steps(cfg, per_epoch)
    scheduler = cosine_with_warmup(optimizer, warmup, total)
    print(f"{warmup} warm-up steps, schedule over {total} steps, training stops at {cfg.max_steps}")

    epoch, step = 0, 0
    if os.path.exists(cfg.save_path):
        ck = torch.load(cfg.save_path)
        model.load_state_dict(ck["model"])
        optimizer.load_state_dict(ck["optimizer"])
        scheduler.load_state_dict(ck["scheduler"])
        epoch, step = ck["epoch"], ck["step"]

    while epoch < cfg.epochs and step < cfg.max_steps:
        model.train()
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(cfg.seed + 17 * epoch))
        for idx in order.split(cfg.batch_size):
            loss = draft_loss(model, verifier, train[idx])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            step += 1
            if step % 5 == 0:
                print(f"step {step} loss {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
            if step >= cfg.max_steps:
                break
        epoch += 1
        model.eval()
        with torch.no_grad():
            print(f"epoch {epoch} val kl {draft_loss(model, verifier, val).item():.4f}", flush=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(), "epoch": epoch, "step": step}, cfg.save_path)


if __name__ == "__main__":
    main()
